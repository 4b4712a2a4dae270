// Talks to the server. What is decided waits in an outbox until the server has stored it.

const RETRY = 1000; // milliseconds between attempts while the server does not answer

// Of the node that is drawn; shared functions read them.
let audit = null;
let names = [];
let rankOf = [];
let graph = null;

const review = { classes: [], reviewer: "", progress: {}, curve: [] };
const outbox = JSON.parse(sessionStorage.getItem("outbox") ?? "[]");
const callbacks = new Map(); // what to do with an answer (null: refused), by key; not kept over a reload
const NOT_ADMITTED = [401, 403, 421]; // by a server that was started again, until its address is opened
let isSending = false;

async function ask(path, body = null) {
  const options = body === null ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  const answer = await fetch(path, options);
  const content = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(content.error), { status: answer.status });
  return content;
}

// A unique text; randomUUID is missing where the page is not on this machine.
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function send(path, body, key, callback = null) {
  outbox.push({ path, body, key });
  if (callback) callbacks.set(key, callback);
  keepOutbox();
  flush();
}

function keepOutbox() {
  sessionStorage.setItem("outbox", JSON.stringify(outbox));
  byId("saved").textContent = outbox.length
    ? `${counted(outbox.length, "decision")} not saved yet` : "Saved.";
  byId("saved").dataset.waiting = outbox.length;
}

// Sends what waits, in order. A key makes sure that nothing is stored twice.
async function flush() {
  if (isSending) return;
  isSending = true;
  while (outbox.length) {
    const { path, body, key } = outbox[0];
    try {
      const answer = await ask(path, body);
      outbox.shift();
      keepOutbox();
      callbacks.get(key)?.(answer);
    } catch (error) {
      if (error.status >= 400 && error.status < 500 && !NOT_ADMITTED.includes(error.status)) {
        outbox.shift();
        keepOutbox();
        complain(`Not stored: ${error.message}`);
        callbacks.get(key)?.(null);
      } else {
        complain(NOT_ADMITTED.includes(error.status)
          ? "The server was started again. Open the address that it printed in this tab: what you "
            + "decided is kept here, and sent then."
          : `${error.status ? `Not stored yet: ${error.message}` : "The server does not answer."} `
            + "What you decide is kept here and sent again.");
        await new Promise((done) => setTimeout(done, RETRY));
        continue;
      }
    }
    callbacks.delete(key);
  }
  isSending = false;
}

function announce(text) {
  byId("live").textContent = text;
}

function complain(text) {
  byId("alert").textContent = text;
  byId("alert").hidden = false;
  setTimeout(() => { byId("alert").hidden = true; }, 8000);
}

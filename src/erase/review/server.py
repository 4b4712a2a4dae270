"""The server of ``erase review``: a page and a small JSON interface, for people on this machine.

Every request needs the secret token: the start address carries it once, and a cookie that scripts
cannot read keeps it. Requests with a foreign Host or Origin are refused, bodies are limited, and
the Content-Security-Policy lets only the server's own script run.
"""

import errno
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import quote, unquote

import msgspec
import pandas as pd
import uvicorn
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from erase.audit.report.render import asset
from erase.data.fields import well_formed
from erase.data.files import csv_bytes, safe_cells
from erase.errors import EraseError
from erase.review.database import StoreError
from erase.review.exports import Exports
from erase.review.session import Session
from erase.review.store import Choice

PORT = 8765  # where the page is, if nothing else is there
BODY_LIMIT = 64 * 1024
_LONGEST_PATH = 1_000
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STYLES = ("styles/base.css", "styles/audit.css")
SHARED = ("scripts/data.js", "scripts/elements.js", "scripts/neighbourhood.js", "scripts/node.js")
OWN = ("scripts/api.js", "scripts/item.js", "scripts/picker.js", "scripts/batch.js",
       "scripts/progress.js", "scripts/start.js")  # fmt: skip

Key = Annotated[str, msgspec.Meta(min_length=8, max_length=64, pattern="^[A-Za-z0-9-]+$")]
Node = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Note = Annotated[str, msgspec.Meta(max_length=2_000)]
Name = Annotated[str, msgspec.Meta(max_length=60)]


class Decision(msgspec.Struct, forbid_unknown_fields=True, rename={"label": "class"}):
    """A decision as the page sends it; the class is a number, null where unsure."""

    key: Key
    node: Node
    label: int | None
    note: Note = ""
    seconds: Annotated[float, msgspec.Meta(ge=0, le=86_400)] | None = None


class Decisions(msgspec.Struct, forbid_unknown_fields=True):
    """Decisions that are stored, and undone, together."""

    decisions: Annotated[list[Decision], msgspec.Meta(min_length=1, max_length=200)]


class Undo(msgspec.Struct, forbid_unknown_fields=True):
    """A request to take the latest decision back."""

    key: Key


class Reviewer(msgspec.Struct, forbid_unknown_fields=True):
    """Who reviews."""

    name: Name


@dataclass(frozen=True)
class Access:
    """Who may talk to the server.

    Attributes:
        port: where it listens.
        token: the secret of the start address.
        host: the address it is bound to.
        by: the reviewer where a browser gives no other name.
    """

    port: int
    token: str
    host: str = "127.0.0.1"
    by: str = ""

    @property
    def url(self) -> str:
        """The start address."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/?token={quote(self.token)}"

    @property
    def cookie(self) -> str:
        """The name of the cookie; cookies of one address are shared by its ports."""
        return f"erase-review-{self.port}"

    def knows_host(self, host: str) -> bool:
        """Say whether the Host header names this server, and not a page that poses as it."""
        name, _, port = host.rpartition(":")
        if port != str(self.port):
            return False
        name = name.strip("[]").lower()
        local = {"127.0.0.1", "localhost", "::1", self.host.lower()}
        if name in local:
            return True
        if self.host in ("0.0.0.0", "::"):  # every address of this machine, by number
            try:
                return bool(ip_address(name))
            except ValueError:
                return False
        return False


def make_app(
    session: Session, access: Access, exports: Exports | None = None, *, safe_csv: bool = False
) -> Starlette:
    """Return the application.

    Args:
        session: the review.
        access: who may use it.
        exports: further files to download, beside decisions.csv and labels.csv.
        safe_csv: escape text in these two that a spreadsheet would take for a formula.
    """

    def csv_file(table: pd.DataFrame) -> bytes:
        return csv_bytes(safe_cells(table) if safe_csv else table)

    files: Exports = {
        "decisions.csv": lambda: csv_file(session.decision_table()),
        "labels.csv": lambda: csv_file(session.label_table()),
        **(exports or {}),
    }
    pages = Environment(
        loader=PackageLoader("erase.review"), autoescape=True, undefined=StrictUndefined
    )
    script = "\n".join(['"use strict";', asset(*SHARED), asset(*OWN, package="erase.review")])
    style = "\n".join([asset(*STYLES), asset("styles/review.css", package="erase.review")])

    def page(request: Request) -> Response:
        text = pages.get_template("review.html").render(name=session.name, exports=list(files))
        return Response(text, media_type="text/html")

    def start(request: Request) -> JSONResponse:
        return JSONResponse(
            {
                "name": session.name,
                "reviewer": _reviewer(request, access),
                "classes": session.classes(),
                "progress": session.progress(),
                "curve": session.curve(),
            }
        )

    def state(request: Request) -> JSONResponse:
        return JSONResponse({"progress": session.progress(), "curve": session.curve()})

    def items(request: Request) -> JSONResponse:
        count = _number(request, "n", 10, 1, 20)
        text = request.query_params.get("have", "")
        have = [int(each) for each in text.split(",") if each.isdigit()][:50]
        fresh = "fresh" in request.query_params
        found = session.next_items(_reviewer(request, access), count, have, fresh=fresh)
        return JSONResponse(found)

    def node(request: Request) -> JSONResponse:
        return JSONResponse(session.item(int(request.path_params["node"])))

    def groups(request: Request) -> JSONResponse:
        return JSONResponse(session.groups(_reviewer(request, access)))

    def group(request: Request) -> JSONResponse:
        classes = len(session.class_names)
        given, suggested = (_number(request, k, 0, 0, classes) for k in ("given", "suggested"))
        count = _number(request, "n", 24, 1, 100)
        cards = session.group(_reviewer(request, access), given, suggested, count)
        return JSONResponse(cards)

    def disagreements(request: Request) -> JSONResponse:
        found = {"labels": session.disagreements(), "agreement": session.agreement()}
        return JSONResponse(found)

    def decide(request: Request, sent: Decisions) -> JSONResponse:
        names, batch = session.class_names, None
        if len(sent.decisions) > 1:
            batch = sent.decisions[0].key
        choices = [
            Choice(
                each.node,
                _class_name(each.label, names),
                note=each.note,
                seconds=each.seconds,
                key=each.key,
                batch=batch,
            )
            for each in sent.decisions
        ]
        new = session.decide(_reviewer(request, access), choices)
        return JSONResponse({"stored": len(choices), "new": new})

    def undo(request: Request, sent: Undo) -> JSONResponse:
        return JSONResponse({"items": session.undo(_reviewer(request, access), sent.key)})

    def reviewer(request: Request, sent: Reviewer) -> JSONResponse:
        name = " ".join(sent.name.split())
        answer = JSONResponse({"reviewer": name})
        _set_cookie(answer, f"{access.cookie}-name", quote(name))
        return answer

    def export(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in files:
            raise HTTPException(404)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(files[name](), media_type="application/octet-stream", headers=headers)

    async def own_script(request: Request) -> Response:
        return Response(script, media_type="text/javascript")

    async def own_style(request: Request) -> Response:
        return Response(style, media_type="text/css")

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/review.js", own_script),
            Route("/review.css", own_style),
            Route("/api/start", start),
            Route("/api/state", state),
            Route("/api/items", items),
            Route("/api/nodes/{node:int}", node),
            Route("/api/groups", groups),
            Route("/api/group", group),
            Route("/api/disagreements", disagreements),
            Route("/api/decisions", _taking(Decisions, decide), methods=["POST"]),
            Route("/api/undo", _taking(Undo, undo), methods=["POST"]),
            Route("/api/reviewer", _taking(Reviewer, reviewer), methods=["POST"]),
            Route("/export/{name}", export),
        ],
        exception_handlers={
            EraseError: _user_error,
            StoreError: _store_error,
            HTTPException: _http_error,
        },
    )
    app.add_middleware(Guard, access=access)
    return app


@contextmanager
def served(
    session: Session,
    exports: Exports | None = None,
    *,
    by: str = "",
    host: str = "127.0.0.1",
    port: int | None = 0,
    token: str = "",
    safe_csv: bool = False,
) -> Iterator[str]:
    """Serve the page from a thread while the block runs; yield the start address.

    Args:
        session: the review.
        exports: further files to download.
        by: the reviewer where a browser gives no other name.
        host: the address to listen on.
        port: 0 takes a free one; None `PORT`, or a free one where that is in use.
        token: the secret of the start address; by default a random one.
        safe_csv: escape formulas in CSV files.
    """
    listener = _listen(host, port)
    token, by = token or secrets.token_urlsafe(32), well_formed([by])[0]
    access = Access(listener.getsockname()[1], token, host, by)
    config = uvicorn.Config(
        make_app(session, access, exports, safe_csv=safe_csv),
        http="h11",  # its limit on headers is set below
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=32 * 1024,
        server_header=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    session.start()
    try:
        yield access.url  # the socket listens already: a browser waits for the answer
    finally:
        session.close()
        server.should_exit = True
        thread.join(5)
        listener.close()


def check_address(host: str, port: int | None) -> None:
    """Raise an EraseError where `served` could not listen now."""
    _listen(host, port).close()


def _listen(host: str, port: int | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches the delay of small packets off only where the protocol is named
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, PORT if port is None else port))
    except OSError as error:
        if port is None and error.errno in (errno.EADDRINUSE, errno.EACCES):
            listener.bind((host, 0))
        else:
            listener.close()
            raise EraseError(
                "an address that is free",
                f"{host}:{PORT if port is None else port} ({error.strerror})",
                "Use another --port or --host.",
            ) from None
    listener.listen(128)
    return listener


class Guard:
    """Lets only requests through that come from the page or carry its cookie; adds headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # no websockets
        request = Request(scope)
        answer = self._refusal(request)
        given = request.query_params.get("token")
        if answer is None and given is not None and scope["path"] == "/":
            answer = self._admitted(given)
        if answer is None and not _same(request.cookies.get(self.access.cookie), self.access.token):
            answer = _refused(403, "Open the address that `erase review` printed.")

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [(k, v) for k, v in message["headers"]]
                kept += [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": kept}
            await send(message)

        await (answer or self.app)(scope, receive, with_headers)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if len(request.headers.getlist("host")) != 1 or not self.access.knows_host(host):
            return _refused(421, "This server has another address.")
        if len(request.scope["path"]) > _LONGEST_PATH:
            return _refused(404, "There is no such page.")
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return _refused(403, "Requests from other pages are refused.")
        if request.headers.get("sec-fetch-site", "same-origin") == "cross-site":
            return _refused(403, "Requests from other pages are refused.")
        if request.method not in ("GET", "HEAD", "POST"):
            return _refused(405, "Only GET and POST are known.")
        return None

    def _admitted(self, token: str) -> Response:
        if not _same(token, self.access.token):
            return _refused(403, "Open the address that `erase review` printed.")
        answer = RedirectResponse("/", 303)
        _set_cookie(answer, self.access.cookie, self.access.token)
        return answer


def _taking(kind: type[Any], handle: Callable[[Request, Any], Response]) -> Any:
    """Return an endpoint that reads a JSON body of this kind."""
    decoder = msgspec.json.Decoder(kind)

    async def endpoint(request: Request) -> Response:
        if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
            return _refused(415, "Send application/json.")
        body = b""
        try:
            async for part in request.stream():
                body += part
                if len(body) > BODY_LIMIT:
                    return _refused(413, f"A body has at most {BODY_LIMIT} bytes.")
        except ClientDisconnect:  # nobody waits for an answer
            return _refused(400, "The body is not whole.")
        try:
            sent = decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _refused(400, str(error))
        return await run_in_threadpool(handle, request, sent)

    return endpoint


def _reviewer(request: Request, access: Access) -> str:
    name = request.cookies.get(f"{access.cookie}-name")
    return access.by if name is None else unquote(name)[:60]


def _set_cookie(answer: Response, name: str, value: str) -> None:
    answer.set_cookie(name, value, httponly=True, samesite="strict", path="/")


def _class_name(k: int | None, names: tuple[str, ...]) -> str | None:
    if k is None:
        return None
    if not 0 <= k < len(names):
        raise EraseError(f"a class from 0 to {len(names) - 1}", str(k), "Choose a class.")
    return names[k]


def _number(request: Request, name: str, default: int, low: int, high: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or len(text) > 9 or not low <= int(text) <= high:
        raise EraseError(f"{name} from {low} to {high}", repr(text[:20]), "Correct it.")
    return int(text)


def _same(given: str | None, wanted: str) -> bool:
    return given is not None and secrets.compare_digest(given.encode(), wanted.encode())


def _refused(status: int, reason: str) -> JSONResponse:
    return JSONResponse({"error": reason}, status)


async def _user_error(request: Request, error: Exception) -> Response:
    return _refused(400, str(error))


async def _store_error(request: Request, error: Exception) -> Response:
    return _refused(503, str(error))  # the page keeps what it sent, and sends it again


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _refused(status, "There is no such page.")

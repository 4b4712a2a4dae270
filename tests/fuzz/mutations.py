"""Nasty values, and ways to damage bytes, JSON and archives; all from one random generator."""

import json
import zipfile
from datetime import date
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch

NUMBERS: list[Any] = [
    -1, 0, 1, 2, 3, 7, 2**31, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), 0.5, -0.0, 1e19,
    1e308, 1e-320, float("nan"), float("inf"), -float("inf"), True,
]  # fmt: skip
WORDS: list[Any] = [
    "", "a", "x", "1e3", "nan", "-1", "7", "ü", "\udcff", "a\0b", "=1+1", "<b>&", "../../x", "\n",
    "train", "id", "label", "a" * 300, "[" * 3000,
]  # fmt: skip
OTHERS: list[Any] = [
    None, b"x", [], [1], [[1], [2, 3]], {}, {"a": 1}, (), {1}, 1j, range(3), Path("x"), date.min,
    np.int8(3), np.float16(1), np.uint64(2**64 - 1), np.datetime64("2020"), np.str_("q"), pd.NA,
    np.ma.masked, len, object, ...,
]  # fmt: skip


def arrays() -> list[Any]:
    """Return fresh arrays and tensors of odd types, shapes and layouts."""
    eye = torch.eye(5)
    bad = torch.sparse_coo_tensor(
        torch.tensor([[9], [9]]), torch.ones(1), (5, 5), check_invariants=False
    )
    return [
        np.zeros(0), np.zeros((5, 0)), np.zeros((0, 5)), np.ones((5, 2), np.float16),
        np.array([1, "a", None], dtype=object), np.ones((2, 2, 2)), np.array(3), np.ones(5, "c16"),
        np.array(["a", "b", "", "a", "b"]), np.full(5, 2**64 - 1, np.uint64), np.full(5, 1e19),
        np.array([0, 1, np.nan, 1, 0]), np.ma.masked_equal([0, 1, 7, 1, 0], 7),
        np.zeros(5, [("a", int)]), np.array([b"a"] * 5), np.array(["2020"] * 5, "M8[D]"),
        np.arange(5)[::-1], np.arange(10).reshape(2, 5).T, np.array([[0, 1], [1, 9]]),
        torch.zeros(5, 3, device="meta"), torch.quantize_per_tensor(eye, 0.1, 0, torch.qint8),
        eye.to(torch.bfloat16), eye.to_sparse(), eye.to_sparse_csr(), eye.to_sparse_csc(),
        eye.to_sparse_bsr((1, 1)), bad, torch.zeros(1).expand(10**12), eye.to(torch.complex64),
        torch.tensor([0, 1, 0, 1, 2**62]), torch.tensor([[0, 1, -5], [1, 2, 3]]),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), torch.ones(5).requires_grad_(),
        sp.csr_matrix((5, 10**9), dtype=float), sp.eye(5, format="coo"), sp.eye(5, format="dia"),
        sp.csr_matrix(np.full((5, 2), np.nan)), sp.coo_matrix(([1.0], ([0], [10**9])), (5, 2**40)),
        pd.Series([1, None, 2, 3, 4]), pd.DataFrame({"a": [1, 2]}), pd.Categorical(["a", "b"]),
    ]  # fmt: skip


def anything() -> st.SearchStrategy[Any]:
    """Return a strategy of values that no argument expects, and some that a few do."""
    made = st.deferred(lambda: st.sampled_from(arrays()))
    numbers, words = st.sampled_from(NUMBERS), st.sampled_from(WORDS) | st.text(max_size=5)
    some = numbers | words | st.sampled_from(OTHERS)
    return some | made | st.lists(some, max_size=6) | st.lists(numbers, min_size=5, max_size=5)


def nasty(random: Random) -> Any:
    """Return a value that JSON or TOML can hold."""
    plain = [each for each in NUMBERS if not isinstance(each, float) or abs(each) < 1e300]
    return random.choice([*plain, *WORDS, None, [], {}, [1, "a"], {"a": []}, [[[[1]]]]])


def damaged_bytes(content: bytes, random: Random) -> bytes:
    """Return bytes with some of them changed, cut, repeated or replaced by extreme numbers."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(changed) + 1)
        kind = random.randrange(6)
        if kind == 0 and changed:
            changed[at % len(changed)] = random.randrange(256)
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            changed[at:at] = random.randbytes(random.randint(1, 40))
        elif kind == 3:
            extreme = random.choice([2**63 - 1, -1, -(2**63), 2**31, 0, 2**40])
            changed[at : at + 8] = extreme.to_bytes(8, "little", signed=True)
        elif kind == 4:
            changed[at:at] = changed[max(0, at - random.randint(1, 200)) : at]
        else:
            changed[at : at + random.randint(1, 64)] = b""
    return bytes(changed)


def damaged_text(content: str, random: Random) -> str:
    """Return text with lines or words removed, repeated or replaced."""
    if random.random() < 0.3:
        return damaged_bytes(content.encode(), random).decode(errors="surrogateescape")
    lines = content.split("\n")
    at = random.randrange(len(lines))
    kind = random.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[random.randrange(len(lines))])
    elif kind == 2:
        lines[at] = str(nasty(random))
    else:
        marks = [mark for mark in ",=:\"' " if mark in lines[at]] or [","]
        words = lines[at].split(mark := random.choice(marks))
        words[random.randrange(len(words))] = str(nasty(random))
        lines[at] = mark.join(words)
    return "\n".join(lines)


def damaged_json(value: Any, random: Random) -> Any:
    """Return JSON's types with a few places removed or replaced."""
    value = json.loads(json.dumps(value))
    for _ in range(random.randint(1, 2)):
        places: list[tuple[Any, Any]] = []
        _collect(value, places)
        if not places:
            return nasty(random)
        holder, key = random.choice(places)
        if random.random() < 0.3:
            del holder[key]
        else:
            holder[key] = nasty(random)
    return value


def _collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value[:20])
    for key, each in entries:
        places.append((value, key))
        _collect(each, places)


def damaged_archive(content: bytes, random: Random) -> bytes:
    """Return a zip file with a member changed, and right sums, so that its reader goes on."""
    with zipfile.ZipFile(BytesIO(content)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    names = list(members)
    name = random.choice(names)
    kind = random.randrange(3)
    if kind == 0:
        members[name] = damaged_bytes(members[name], random)
    elif kind == 1:
        del members[name]
    else:
        members[name] = members[random.choice(names)]
    result = BytesIO()
    with zipfile.ZipFile(result, "w") as file:
        for name, member in members.items():
            file.writestr(name, member)
    return result.getvalue()


def damaged_safetensors(content: bytes, random: Random) -> bytes:
    """Return a safetensors file with changed metadata, header or numbers."""
    end = 8 + int.from_bytes(content[:8], "little")
    header, numbers = json.loads(content[8:end]), content[end:]
    kind = random.randrange(3)
    if kind == 0:
        metadata = damaged_json(json.loads(header["__metadata__"]["json"]), random)
        header["__metadata__"]["json"] = json.dumps(metadata)
    elif kind == 1:
        header = damaged_json(header, random)
    else:
        at = 4 * random.randrange(len(numbers) // 4)
        extreme = random.choice([np.nan, np.inf, -1e30, 0.0, 3e38])
        numbers = numbers[:at] + np.float32(extreme).tobytes() + numbers[at + 4 :]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + numbers

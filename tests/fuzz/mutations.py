"""Ways to spoil files: values of JSON, tokens of text, bytes, and the files themselves."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

TEXTS = [
    "", " ", "x" * 300, "x" * 100_000, "../../escaped", "/tmp/handful-escaped", "..", ".", "a/b",
    "a\0b", "<script>alert(1)</script>", "](javascript:alert(1)) | `x`", "\ud800", "²", "NaN",
    "漢" * 64, "\x1b[31m", "-1", "1e400", "pick\n# heading", "con", "bench", "%s%n{0}{{7*7}}",
]  # fmt: skip
NUMBERS: list[Any] = [
    0, -1, 1, 2, 7, 0.5, -0.0, 1e-300, 1e-9, 1e9, 1e30, 1e308, -1e308, 2**31, 2**32, 2**53, 2**63,
    -(2**63) - 1, 2**64, 10**400, float("nan"), float("inf"), -float("inf"), 1_000_000,
]  # fmt: skip
OTHERS: list[Any] = [None, True, False, [], {}, [[]], [[], []], {"a": 1}, [0] * 5_000, [{}] * 2_000]


def odd_value(rng: random.Random) -> Any:
    kind = rng.random()
    pool = TEXTS if kind < 0.35 else NUMBERS if kind < 0.75 else OTHERS
    value = copy.deepcopy(rng.choice(pool))  # a case must not change what the next one gets
    if rng.random() < 0.02:
        value = json.loads("[" * 900 + "]" * 900)
    return value


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values inside of one; of long lists and deep ones, some."""
    if len(path) > 30:
        inner = []
    elif isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))[:40]
    else:
        inner = []
    return [(*path, key) for key, _ in inner] + [
        place for key, one in inner for place in _places(one, (*path, key))
    ]


def spoil_json(text: str, rng: random.Random) -> str:
    """A JSON text with one to three of its values changed, dropped, doubled or added."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = _places(value)
        if not places:
            return json.dumps(odd_value(rng))
        *parents, last = rng.choice(places)
        node = value
        for key in parents:
            node = node[key]
        action = rng.random()
        if action < 0.6:
            node[last] = odd_value(rng)
        elif action < 0.75:
            del node[last]
        elif action < 0.85 and isinstance(node, dict):
            node[rng.choice([*TEXTS, "colour"])] = odd_value(rng)
        elif isinstance(node, list):
            node.extend([node[last]] * rng.choice([1, 10, 1_000]))
    text = json.dumps(value)
    if rng.random() < 0.03:
        text = text.replace("{", '{"name": 1, "name": 2, ', 1)
    return text


def spoil_lines(data: bytes, rng: random.Random) -> bytes:
    """Text with a token, or a line, changed, dropped or repeated."""
    lines = data.split(b"\n")
    for _ in range(rng.choice([1, 1, 2, 4])):
        if not lines:
            return b""
        index = rng.randrange(min(len(lines), 40) if rng.random() < 0.7 else len(lines))
        action = rng.random()
        if action < 0.6:
            words = lines[index].split(b" ")
            odd = str(odd_value(rng)).encode("utf-8", "surrogatepass")[:200_000]
            words[rng.randrange(len(words))] = odd
            lines[index] = b" ".join(words)
        elif action < 0.75:
            del lines[index]
        elif action < 0.9:
            lines[index:index] = [lines[index]] * rng.choice([1, 3, 2_000])
        else:
            lines.insert(index, b" ".join(rng.choice(lines).split(b" ")[::-1]))
    return b"\n".join(lines)


def spoil_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, cut off, put in or overwritten."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(out) + 1)
        action = rng.random()
        if action < 0.45 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif action < 0.6:
            del out[at:]
        elif action < 0.7:
            out[at:at] = rng.randbytes(rng.choice([1, 4, 200]))
        elif action < 0.9:
            number = rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1])
            size = rng.choice([4, 8])
            out[at : at + size] = (number % 2 ** (8 * size)).to_bytes(size, "little")
        else:
            del out[at : at + rng.choice([1, 8, 64])]
    return bytes(out)


def spoil_file(path: Path, rng: random.Random, whole: float = 0.06) -> str:
    """Spoil one file in place; says how."""
    if rng.random() < whole:
        return _replace_file(path, rng)
    data = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.85:
        path.write_text(spoil_json(data.decode(), rng))
        return "json"
    if path.suffix == ".jsonl" and rng.random() < 0.85:
        lines = data.decode().split("\n")
        index = rng.randrange(max(1, len(lines) - 1))
        lines[index] = spoil_json(lines[index], rng)
        path.write_text("\n".join(lines))
        return "line"
    if path.suffix in (".ply", ".pcd", ".obj", ".csv", ".jsonl") and rng.random() < 0.6:
        path.write_bytes(spoil_lines(data, rng))
        return "text"
    path.write_bytes(spoil_bytes(data, rng))
    return "bytes"


def _replace_file(path: Path, rng: random.Random) -> str:
    """Something else in the place of a file: nothing, a folder, a link, a pipe, other bytes."""
    kind = rng.choice(["missing", "empty", "folder", "zero", "pipe", "loop", "noise", "sibling"])
    siblings = [one for one in path.parent.iterdir() if one.is_file() and one != path]
    other = rng.choice(siblings).read_bytes() if siblings else b""
    path.unlink()
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "folder":
        path.mkdir()
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "noise":
        path.write_bytes(rng.randbytes(rng.choice([1, 100, 100_000])))
    elif kind == "sibling":
        path.write_bytes(other)
    return kind


def fresh_copy(source: Path, target: Path) -> None:
    """A copy of a whole folder in the place of another."""
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target)

"""One case: a right input, spoiled by a seed or as the corpus says, read and judged."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz.mutations import fresh_copy, spoil_file
from fuzz.subjects import SUBJECTS
from handful.errors import LONGEST_MESSAGE, HandfulError

CORPUS = Path(__file__).parent / "corpus.json"
"""What was found once, by hand or by the fuzzer: a list of entries for `corpus_case`."""
MOST_MEMORY = 10**9
"""Bytes that a process that reads may have needed in all."""

MOST_WAIT = 600.0
"""Seconds after which a case that computes nothing hangs, on however busy a machine."""

_WRITES: dict[str, tuple[int | None, int | None]] = {
    "os.rename": (2, 3), "os.remove": (1, None), "os.mkdir": (2, None), "os.rmdir": (1, None),
    "os.link": (2, 3), "os.symlink": (None, 2), "os.truncate": (None, None),
}  # fmt: skip
"""Events of writes, and which arguments hold the folders that their two paths are relative to."""
_PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "pickle.find_class",
             "socket.connect", "ctypes.dlopen"}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How a case ended.

    Attributes:
        subject: What was read.
        how: What was done to it.
        kind: `read`, `refused`, or what is wrong: `untyped`, `slow`, `outside`, `program`.
        what: The message, or the end of the traceback.
        seconds: Of computing.
        grown: Bytes that the process has resident more than before it.
    """

    subject: str
    how: str
    kind: str
    what: str = ""
    seconds: float = 0.0
    grown: int = 0

    @property
    def fine(self) -> bool:
        return self.kind in ("read", "refused")


class TooSlow(BaseException):
    """A case took longer than it may."""


class Watch:
    """Hears of every write and every started program in this process while a case runs."""

    def __init__(self) -> None:
        self.allowed: tuple[str, ...] | None = None
        self.seen: list[tuple[str, str]] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.allowed is None:
            return
        if event in _PROGRAMS:
            self.seen.append(("program", f"{event} {str(arguments)[:200]}"))
        elif event == "open":
            path, _mode, flags = arguments
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if writes and isinstance(path, str | bytes):
                self._note(event, path)
        elif event in _WRITES:
            for path, place in zip(arguments, _WRITES[event], strict=False):
                if isinstance(path, str | bytes | os.PathLike):
                    folder = -1 if place is None else arguments[place]
                    self._note(event, path, folder)

    def _note(self, event: str, path: Any, folder: int = -1) -> None:
        """Note a write to a path, relative to a folder of that descriptor or to where we are."""
        name = os.fsdecode(os.fspath(path))
        if folder is not None and folder >= 0:
            name = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
        name = os.path.abspath(name)
        if not name.startswith(self.allowed or ()) and name != os.devnull:
            self.seen.append(("outside", f"{event} {name}"))

    @contextmanager
    def only_in(self, *folders: Path) -> Iterator[None]:
        self.seen.clear()
        self.allowed = tuple(f"{folder}{os.sep}" for folder in folders)
        try:
            yield
        finally:
            self.allowed = None


class Bench:
    """Right inputs, made once, and a folder in which cases run.

    Args:
        folder: For everything; emptied by the caller.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._watch = folder.resolve(), Watch()

    def seeded_case(self, seed: int, only: str | None = None) -> Outcome:
        """The case that a seed stands for."""
        rng = random.Random(seed)
        names = list(SUBJECTS) if only is None else [only]
        weights = [SUBJECTS[name].weight for name in names]
        (name,) = rng.choices(names, weights)
        folder = self._prepared(name)
        prepare = SUBJECTS[name].prepare
        if prepare is not None:
            prepare(folder, rng)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        small = [path for path in files if path.suffix in (".json", ".jsonl")]
        chosen = rng.choice(small if small and rng.random() < 0.6 else files)
        how = spoil_file(chosen, rng)
        return self._judged(name, folder, f"seed {seed}: {how} {chosen.relative_to(folder)}")

    def corpus_case(self, entry: dict[str, Any]) -> Outcome:
        """A case of the corpus: a `name`, a `subject` and the `edits` of its files."""
        folder = self._prepared(entry["subject"])
        if entry["subject"] in ("model", "baseline", "ndf"):
            for path in folder.glob("*/config.json"):
                _unsealed(path)
        for edit in entry["edits"]:
            _apply(edit, folder / edit["file"])
        return self._judged(entry["subject"], folder, entry["name"])

    def _prepared(self, name: str) -> Path:
        right = self._folder / "right" / name
        if not right.is_dir():
            right.mkdir(parents=True)
            SUBJECTS[name].make(right)
        folder = self._folder / "cases" / "case"
        folder.parent.mkdir(exist_ok=True)
        fresh_copy(right, folder)
        return folder

    def _judged(self, name: str, folder: Path, how: str) -> Outcome:
        subject = SUBJECTS[name]
        start, before = time.process_time(), resident_memory()
        kind, what = "read", ""
        signal.signal(signal.SIGPROF, _too_slow)
        signal.signal(signal.SIGALRM, _too_slow)
        signal.setitimer(signal.ITIMER_PROF, subject.seconds)
        signal.setitimer(signal.ITIMER_REAL, MOST_WAIT)
        try:
            with self._watch.only_in(folder):
                subject.read(folder)
        except HandfulError as error:
            kind, what = "refused", str(error)
            if len(what) > LONGEST_MESSAGE or not what.strip():
                kind = "untyped"
        except TooSlow:
            kind, what = "slow", traceback.format_exc(limit=-6)
        except Exception:
            kind, what = "untyped", traceback.format_exc(limit=-6)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        if self._watch.seen:
            kind, what = self._watch.seen[0]
        seconds, grown = time.process_time() - start, resident_memory() - before
        return Outcome(name, how, kind, what[-2_000:], seconds, grown)


def _too_slow(*_: object) -> None:
    raise TooSlow


def _apply(edit: dict[str, Any], path: Path) -> None:
    """An edit of a file.

    It has another name for the file (`rename`), its new content (`text`, repeated `times`, between
    `before` and `after`), bytes that come in place of others wherever these are (`swap`, as
    characters of Latin-1), or the `path` of a value in its JSON, or in one `line` of it, with what
    comes there: a `value`, repeated `times`; a `number` as Python writes it; or the list that is
    there, cut to its first `keep` items or repeated (`repeat`).
    """
    if "rename" in edit:
        path.rename(path.with_name(edit["rename"]))
        return
    if "text" in edit:
        content = edit["text"] * edit.get("times", 1)
        path.write_text(edit.get("before", "") + content + edit.get("after", ""))
        return
    if "swap" in edit:
        old, new = (word.encode("latin-1") for word in edit["swap"])
        content = path.read_bytes()
        assert old in content, f"{path} has no {old!r}"
        path.write_bytes(content.replace(old, new))
        return
    lines = path.read_text().split("\n") if "line" in edit else [path.read_text()]
    content = json.loads(lines[edit.get("line", 0)])
    *parents, last = edit["path"]
    node = content
    for key in parents:
        node = node[key]
    if "keep" in edit:
        node[last] = node[last][: edit["keep"]]
    elif "repeat" in edit:
        node[last] = node[last] * edit["repeat"]
    elif "number" in edit:
        node[last] = _number(edit["number"])
    else:
        node[last] = edit["value"] * edit["times"] if "times" in edit else edit["value"]
    lines[edit.get("line", 0)] = json.dumps(content)
    path.write_text("\n".join(lines))


def _number(text: str) -> float:
    """A number that JSON does not have, as Python writes it."""
    if text.startswith("float("):
        return float(text[7:-2])
    base, power, exponent = text.partition("**")
    return int(base) ** int(exponent) if power else float(text)


def _unsealed(path: Path) -> None:
    content = json.loads(path.read_text())
    content.pop("digests", None)
    path.write_text(json.dumps(content))


def peak_memory() -> int:
    """Bytes that this process has needed at most.

    Not `ru_maxrss`: a process that is started by a larger one begins with that one's.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) * 1024


def resident_memory() -> int:
    """Bytes that this process has in memory now."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def corpus() -> list[dict[str, Any]]:
    """All entries of the corpus."""
    return json.loads(CORPUS.read_text())

"""The commands that a benchmark was run with, kept for the report."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import handful
from handful._files import append_line, make_subfolder
from handful._names import printable
from handful._strict_json import MAX_TEXT, Fields, read_json_lines
from handful.errors import FileFormatError

COMMANDS = "commands.jsonl"
"""In the folder of a benchmark."""


@dataclass(frozen=True)
class CommandNote:
    """A command that was given.

    Attributes:
        command: As it was given.
        handful: Version of the software.
        python: Version of Python.
        machine: What it ran on.
        time: When, local time.
    """

    command: str
    handful: str = ""
    python: str = ""
    machine: str = ""
    time: str = ""


def note_command(folder: Path, command: str) -> None:
    """Remember a command that was given, for the report.

    Raises:
        FileFormatError: It cannot be written.
    """
    make_subfolder(folder)
    note = CommandNote(
        printable(command)[:MAX_TEXT],
        handful.__version__,
        platform.python_version(),
        platform.platform(),
        time.strftime("%Y-%m-%d %H:%M:%S"),
    )
    append_line(folder / COMMANDS, json.dumps(asdict(note), ensure_ascii=False))


def read_commands(path: Path) -> Iterator[CommandNote]:
    """The commands in a file of them; none when there is no file.

    Raises:
        FileFormatError: A line is something else.
    """
    if not path.is_file():
        return
    for address, value in read_json_lines(path):
        fields = Fields(value, address, FileFormatError)
        names = ("handful", "python", "machine", "time")
        yield CommandNote(fields.text("command"), *(fields.text(name, "") for name in names))
        fields.done()

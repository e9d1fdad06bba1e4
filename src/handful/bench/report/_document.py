"""A document in blocks, written as one self-contained HTML page, or as Markdown and files.

Both are written by templates (`templates/`) whose environments escape every value by default:
whatever a run's folder says is text, never HTML and never Markdown.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from handful._files import atomic_write_bytes, atomic_write_text, make_subfolder
from handful._names import printable, safe_name
from handful.bench.report._style import STYLE


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title of the page."""

    kind: ClassVar[str] = "heading"
    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    kind: ClassVar[str] = "paragraph"
    text: str


@dataclass(frozen=True)
class Code:
    """Lines to copy."""

    kind: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True)
class Cards:
    """A few numbers in large type: number, what it is, and a note."""

    kind: ClassVar[str] = "cards"
    cards: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: What it says.
        note: In small type below.
        tone: `good`, `bad` or nothing.
    """

    text: str
    note: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head."""

    kind: ClassVar[str] = "table"
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Picture:
    """An image.

    Attributes:
        stem: Of its file beside the Markdown, made safe there whatever it is.
        suffix: `.jpg`, `.png` or `.svg`.
        content: JPEG or PNG, or the text of an SVG that this software drew.
        caption: Below it.
    """

    kind: ClassVar[str] = "picture"
    stem: str
    suffix: str
    content: bytes
    caption: str = ""

    @property
    def name(self) -> str:
        """Of its file."""
        return safe_name(self.stem) + self.suffix

    @property
    def is_drawing(self) -> bool:
        """Whether it is an SVG."""
        return self.suffix == ".svg"

    @property
    def drawing(self) -> Markup:
        """An SVG for the page, where its own drawing functions have escaped all text."""
        return Markup(self.content.decode())

    @property
    def data_url(self) -> str:
        """The image for the page."""
        image = "png" if self.suffix == ".png" else "jpeg"
        return f"data:image/{image};base64,{base64.b64encode(self.content).decode()}"


@dataclass(frozen=True)
class Gallery:
    """Pictures side by side where there is room."""

    kind: ClassVar[str] = "gallery"
    pictures: tuple[Picture, ...]


Block = Heading | Paragraph | Code | Cards | Table | Picture | Gallery


def write_page(blocks: Sequence[Block], path: Path) -> None:
    """Write one HTML file that needs nothing else."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "Report")
    page = _environment(autoescape=True).get_template("page.html.j2")
    atomic_write_text(path, page.render(blocks=blocks, title=title, style=Markup(STYLE)))


def write_markdown(blocks: Sequence[Block], path: Path) -> None:
    """Write a Markdown file, and its pictures into a folder beside it."""
    folder = path.with_name(f"{path.stem}_files")
    for block in blocks:
        for picture in _pictures(block):
            make_subfolder(folder)
            atomic_write_bytes(folder / picture.name, picture.content)
    environment = _environment(autoescape=False, finalize=_markdown)
    environment.filters.update(verbatim=_Verbatim, fenced=_fenced)
    text = environment.get_template("page.md.j2").render(blocks=blocks, folder=_url(folder.name))
    atomic_write_text(path, re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")


def _environment(**options: Any) -> Environment:
    return Environment(
        loader=PackageLoader("handful.bench.report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **options,
    )


def _pictures(block: Block) -> tuple[Picture, ...]:
    if isinstance(block, Gallery):
        return block.pictures
    return (block,) if isinstance(block, Picture) else ()


class _Verbatim(str):
    """Text that goes into Markdown as it is."""


_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~$])")
_BEGINS_BLOCK = re.compile(r"^(\d{1,9})([.)])(?=\s)|^([-+#=])(?=[\s#=])")


def _markdown(value: object) -> str:
    """Text that Markdown shows as it is, on one line: no links, no HTML, no table cells."""
    if isinstance(value, _Verbatim):
        return value
    text = " ".join(printable(str(value)).replace("&", "&amp;").split())
    text = _SPECIAL.sub(_escaped, text)
    return _BEGINS_BLOCK.sub(lambda m: f"{m[1]}\\{m[2]}" if m[1] else f"\\{m[3]}", text)


def _escaped(found: re.Match[str]) -> str:
    """Brackets of tags as entities, which no reader of Markdown can miss; the rest escaped."""
    return {"<": "&lt;", ">": "&gt;"}.get(found[1], f"\\{found[1]}")


def _fenced(text: str) -> _Verbatim:
    """Lines to copy, between fences that are longer than any run of backticks in them."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return _Verbatim(f"{fence}sh\n{printable(text)}\n{fence}")


def _url(name: str) -> _Verbatim:
    """The name of a file as a link's target."""
    from urllib.parse import quote

    return _Verbatim(quote(name.encode("utf-8", "surrogateescape")))

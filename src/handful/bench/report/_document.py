"""A document in blocks, written as one self-contained HTML page, or as Markdown and files."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from handful._files import atomic_write_bytes, atomic_write_text
from handful.bench._errors import BenchError
from handful.bench.report._style import STYLE


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title of the page."""

    text: str
    level: int = 2

    def html(self) -> str:
        """For the page."""
        return f"<h{self.level}>{html.escape(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    text: str

    def html(self) -> str:
        """For the page."""
        return f"<p>{html.escape(self.text)}</p>"


@dataclass(frozen=True)
class Code:
    """Lines to copy."""

    text: str

    def html(self) -> str:
        """For the page."""
        return f"<pre><code>{html.escape(self.text)}</code></pre>"


@dataclass(frozen=True)
class Cards:
    """A few numbers in large type: number, what it is, and a note."""

    cards: tuple[tuple[str, str, str], ...]

    def html(self) -> str:
        """For the page."""
        parts = [
            f'<div class="card"><b>{html.escape(number)}</b><span>{html.escape(label)}</span>'
            f"<small>{html.escape(note)}</small></div>"
            for number, label, note in self.cards
        ]
        return f'<div class="cards">{"".join(parts)}</div>'


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

    def html(self) -> str:
        """For the page."""
        note = f"<small>{html.escape(self.note)}</small>" if self.note else ""
        tone = f' class="{self.tone}"' if self.tone else ""
        return f"<td{tone}>{html.escape(self.text)}{note}</td>"


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def html(self) -> str:
        """For the page."""
        head = "".join(f"<th>{html.escape(word)}</th>" for word in self.head)
        rows = "".join(f"<tr>{''.join(cell.html() for cell in row)}</tr>" for row in self.rows)
        return (
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )


@dataclass(frozen=True)
class Picture:
    """An image.

    Attributes:
        name: Of its file beside the Markdown.
        content: JPEG or PNG, or the text of an SVG.
        caption: Below it.
    """

    name: str
    content: bytes
    caption: str = ""

    @property
    def is_drawing(self) -> bool:
        """Whether it is an SVG."""
        return self.name.endswith(".svg")

    def html(self) -> str:
        """For the page."""
        caption = f"<figcaption>{html.escape(self.caption)}</figcaption>" if self.caption else ""
        if self.is_drawing:
            return f'<figure class="drawing">{self.content.decode()}{caption}</figure>'
        kind = "png" if self.name.endswith(".png") else "jpeg"
        data = base64.b64encode(self.content).decode()
        text = html.escape(self.caption, quote=True)
        return (
            f'<figure><img alt="{text}" loading="lazy" src="data:image/{kind};base64,{data}">'
            f"{caption}</figure>"
        )


@dataclass(frozen=True)
class Gallery:
    """Pictures side by side where there is room."""

    pictures: tuple[Picture, ...]

    def html(self) -> str:
        """For the page."""
        return f'<div class="gallery">{"".join(picture.html() for picture in self.pictures)}</div>'


Block = Heading | Paragraph | Code | Cards | Table | Picture | Gallery


def write_page(blocks: Sequence[Block], path: Path) -> None:
    """Write one HTML file that needs nothing else."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "Report")
    body = "\n".join(block.html() for block in blocks)
    atomic_write_text(
        path,
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style></head>\n"
        f"<body><main>\n{body}\n</main></body></html>\n",
    )


def write_markdown(blocks: Sequence[Block], path: Path) -> None:
    """Write a Markdown file, and its pictures into a folder beside it."""
    folder = path.with_name(f"{path.stem}_files")
    parts = []
    for block in blocks:
        for picture in _pictures(block):
            try:
                folder.mkdir(exist_ok=True)
            except OSError as error:
                raise BenchError(f"{folder}: cannot be made: {error.strerror}.") from error
            atomic_write_bytes(folder / picture.name, picture.content)
        parts.append(_markdown(block, folder.name))
    atomic_write_text(path, "\n\n".join(parts) + "\n")


def _markdown(block: Block, folder: str) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_plain(block.text)}"
    if isinstance(block, Paragraph):
        return _plain(block.text)
    if isinstance(block, Code):
        return f"```sh\n{block.text}\n```"
    if isinstance(block, Cards):
        lines = [f"**{number}** {label}: {note}" for number, label, note in block.cards]
        return "\n".join(f"- {_plain(line)}" for line in lines)
    if isinstance(block, Table):
        head = [_markdown_cell(Cell(word)) for word in block.head]
        lines = [" | ".join(head), " | ".join("---" for _ in head)]
        lines += [" | ".join(_markdown_cell(cell) for cell in row) for row in block.rows]
        return "\n".join(f"| {line} |" for line in lines)
    return "\n\n".join(
        f"![{_plain(one.caption).replace('[', '(').replace(']', ')')}]({folder}/{one.name})"
        for one in _pictures(block)
    )


def _pictures(block: Block) -> tuple[Picture, ...]:
    if isinstance(block, Gallery):
        return block.pictures
    return (block,) if isinstance(block, Picture) else ()


def _markdown_cell(cell: Cell) -> str:
    text = f"{cell.text} ({cell.note})" if cell.note else cell.text
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """Text that Markdown shows on one line and does not take for HTML."""
    return " ".join(html.escape(text, quote=False).split())

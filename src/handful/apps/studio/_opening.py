"""Opening what people have: cloud files, demonstration sets, folders of RGB-D recordings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from handful.apps.studio._archive import ArchiveReader, opened_folder
from handful.apps.studio._document import Document, Scene
from handful.clouds import CloudReader

ARCHIVE = ".zip"
"""Ending of a packed folder."""

Change = Callable[[Document], Document]


def opened_path(path: Path, reader: CloudReader) -> Change:
    """Read what is at a path of this computer.

    Args:
        path: A cloud file, a demonstration set, or a folder of RGB-D recordings.
        reader: Reads clouds.

    Returns:
        A function that gives a document with it.

    Raises:
        HandfulError: There is nothing of the kind.
    """
    if path.is_dir():
        demos = opened_folder(path)
        return lambda document: document.with_demos(demos)
    scene = Scene(path.stem, reader.read(path))
    return lambda document: document.with_scene(scene)


def opened_upload(
    content: bytes, name: str, reader: CloudReader, archives: ArchiveReader
) -> Change:
    """Read a file that a page has uploaded.

    Args:
        content: All bytes of the file: a cloud, or a packed folder.
        name: Its name.
        reader: Reads clouds.
        archives: Reads packed folders.

    Returns:
        A function that gives a document with it.

    Raises:
        HandfulError: It is nothing of the kind.
    """
    if Path(name).suffix.lower() == ARCHIVE:
        demos = archives.read(content, name)
        return lambda document: document.with_demos(demos)
    scene = Scene(Path(name).stem, reader.read_bytes(content, name))
    return lambda document: document.with_scene(scene)

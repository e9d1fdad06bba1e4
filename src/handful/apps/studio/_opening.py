"""Opening what people have: cloud files, demonstration sets, folders of RGB-D recordings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from handful.apps.studio._document import Document, Scene
from handful.clouds import CloudReader
from handful.demos import load_demos

RECORDINGS = "recordings.json"

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
        if (path / RECORDINGS).is_file():
            from handful.recordings import import_rgbd

            demos = import_rgbd(path)
        else:
            demos = load_demos(path)
        return lambda document: document.with_demos(demos)
    scene = Scene(path.stem, reader.read(path))
    return lambda document: document.with_scene(scene)

"""The example of RGB-D recordings, made once per test process, and copies of it to spoil."""

import json
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from handful.demos import DemoSet
from handful.recordings import import_rgbd, write_rgbd_example


@lru_cache
def example_folder() -> Path:
    """Two recordings of the peg and the box."""
    return write_rgbd_example(Path(tempfile.mkdtemp()) / "peg_images", 2)


@lru_cache
def example_demos() -> DemoSet:
    """What is imported from it."""
    return import_rgbd(example_folder())


def copied(folder: Path) -> Path:
    """A copy with one of the recordings."""
    shutil.copytree(example_folder(), folder, ignore=shutil.ignore_patterns("peg_01"))
    manifest = json.loads((folder / "recordings.json").read_text())
    manifest["recordings"] = ["peg_00/recording.json"]
    (folder / "recordings.json").write_text(json.dumps(manifest))
    return folder


def change(file: Path, *keys: Any, to: Any) -> None:
    """Change one value of a JSON file; None removes it."""
    whole = json.loads(file.read_text())
    inner = whole
    for key in keys[:-1]:
        inner = inner[key]
    if to is None:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = to
    file.write_text(json.dumps(whole))

"""What the studio reads that nobody else does: packed folders, and its own folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from fuzz.subject import Subject
from handful.apps.studio._archive import demos_of
from handful.apps.studio._document import Scene
from handful.apps.studio._folder import StudioFolder
from handful.clouds import write_cloud
from handful.demos import gripper_named, save_demos
from samples import pose_at, small_cloud, small_demos


def _make_archive(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as whole:
        save_demos(small_demos(1), Path(whole) / "set")
        shutil.make_archive(str(folder / "set"), "zip", whole)


def _read_archive(folder: Path) -> None:
    (folder / "out").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder / "out") as place:
        content = (folder / "set.zip").read_bytes()
        demos_of(content, "set.zip", Path(place) / "unpacked", 1_000_000)


def _make_folder(folder: Path) -> None:
    studio = StudioFolder(folder / "studio")
    document = studio.load(gripper_named("simulated"))
    scene = Scene("cup", small_cloud(1), small_cloud(2), pose_at(0, 0, 0.2), "demo_0", 1)
    studio.save(document.with_demos(small_demos(1)).with_scene(scene))
    write_cloud(small_cloud(3), folder / "studio" / "scenes" / "other.npz")


def _read_folder(folder: Path) -> None:
    studio = StudioFolder(folder / "studio")
    document = studio.load(gripper_named("simulated"))
    names = [demo.name for demo in document.demonstrations]
    for scene in document.scenes:
        document.proposed_step(scene.name, scene.follows if scene.follows in names else "")


STUDIO = {
    "studio archive": Subject(_make_archive, _read_archive),
    "studio folder": Subject(_make_folder, _read_folder),
}

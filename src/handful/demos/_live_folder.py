"""A demonstration folder that is written after every change, however large its clouds are.

`save_demos` writes a whole folder and swaps it in. Here a cloud that is on the disk already is not
written again: new clouds come first, under names that nothing has, and then the manifest, in one
step. Whoever reads the folder meanwhile sees the set before the change or after it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from handful._files import make_folder, make_subfolder, remove_file
from handful._strict_json import read_json
from handful.clouds import PointCloud, write_cloud
from handful.demos._folder import (
    MANIFEST,
    check_replaceable,
    entry_of,
    file_name,
    load_demos,
    write_manifest,
)
from handful.demos._gripper_json import MESH_FILE
from handful.demos._types import DemoSet


class LiveDemoFolder:
    """Keeps one demonstration set on the disk up to date. One process at a time may have it.

    Args:
        path: The folder; made with the first set that is written. Must not exist, be empty, or be
            a demonstration folder.

    Raises:
        DemoError: Something else is there.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        check_replaceable(self.path, MANIFEST, "demonstration folder", overwrite=True)
        self._files: dict[int, tuple[PointCloud, str]] = {}
        """Clouds on the disk by their identity; holding them keeps the identity theirs."""
        self._unused: set[str] = set()
        """Files that the manifest before the last one named and the last one does not."""

    def load(self) -> DemoSet | None:
        """The set that is there, or None.

        Raises:
            HandfulError: As for `load_demos`.
        """
        if not (self.path / MANIFEST).is_file():
            return None
        demos = load_demos(self.path)
        entries = read_json(self.path / MANIFEST)["demonstrations"]
        for demonstration, entry in zip(demos, entries, strict=True):
            for step, said in zip(demonstration.steps, entry["steps"], strict=True):
                for role, cloud in (("scene", step.scene), ("grasp", step.grasp)):
                    if cloud is not None:
                        self._files[id(cloud)] = (cloud, str(said[role]))
        return demos

    def write(self, demos: DemoSet | None) -> None:
        """Bring the folder up to date; on return, the set is on the disk.

        Args:
            demos: The whole set; None empties the folder.

        Raises:
            FileFormatError: It cannot be written; the set before is still there.
        """
        if demos is None:
            self._empty()
            return
        make_folder(self.path)
        known = dict(self._files)
        used: dict[int, tuple[PointCloud, str]] = {}
        entries = []
        for demonstration in demos:

            def file_of(
                cloud: PointCloud, step: str, role: str, demo: str = demonstration.name
            ) -> str:
                if id(cloud) not in known:
                    known[id(cloud)] = (cloud, self._written(cloud, demo, step, role))
                used[id(cloud)] = known[id(cloud)]
                return used[id(cloud)][1]

            entries.append(entry_of(demonstration, file_of))
        write_manifest(demos, self.path, entries)
        self._files = used
        self._remove_unused({file for _, file in known.values()})

    def _written(self, cloud: PointCloud, demo: str, step: str, role: str) -> str:
        """Write a cloud under a name that no file has; the file's path in the folder."""
        folder = file_name(demo, {MANIFEST, MESH_FILE})
        make_subfolder(self.path / folder)
        there = {one.name.lower() for one in (self.path / folder).iterdir()}
        start, number = file_name(step, set()), 1
        while (name := f"{start}_{role}{'' if number == 1 else f'_{number}'}.ply").lower() in there:
            number += 1
        write_cloud(cloud, self.path / folder / name)
        return f"{folder}/{name}"

    def _remove_unused(self, known: set[str]) -> None:
        """Remove clouds that neither this manifest nor the one before it names.

        A reader of the manifest before may still be at work. Files that no manifest of this folder
        named are not ours to remove.

        Args:
            known: Files that the last manifest named, or this one does.
        """
        used = {file for _, file in self._files.values()}
        for file in self._unused - used:
            with contextlib.suppress(OSError):
                (self.path / file).unlink()
                (self.path / file).parent.rmdir()  # refused where something else is in it
        self._unused = known - used

    def _empty(self) -> None:
        """Remove the manifest, and then all clouds that it named: there is no set to read."""
        known = {file for _, file in self._files.values()}
        self._files = {}
        remove_file(self.path / MANIFEST)
        self._unused |= known
        self._remove_unused(set())

"""The studio's folder on disk.

FOLDER/demos/     the demonstration set, which `handful train` reads
FOLDER/scenes/    clouds that were opened and in which nothing is taught yet
FOLDER/runs/      trainings, by name
FOLDER/pictures/  what was saved as a picture or a page

A folder that is a demonstration set itself is taught in place; the rest goes to FOLDER.studio/.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from handful._files import make_folder, make_subfolder, remove_file
from handful._locks import alone
from handful.apps.studio._document import Document, Scene
from handful.clouds import PointCloud, read_cloud, write_cloud
from handful.demos import Gripper, LiveDemoFolder
from handful.errors import HandfulError

MANIFEST = "demos.json"
CLOUD_SUFFIXES = (".ply", ".pcd", ".npz")
HELD = ".held.ply"
"""What is held in a scene stands beside it under this ending."""
MAX_SCENES = 200
"""Files of `scenes/` that are read at the start."""


class StudioFolder:
    """Reads and writes everything that is taught.

    Args:
        path: The folder, or a demonstration set; made when missing.
    """

    def __init__(self, path: str | Path) -> None:
        given = Path(path)
        is_set = (given / MANIFEST).is_file()
        self.path = given.with_name(f"{given.name}.studio") if is_set else given
        self.demos_path = given if is_set else given / "demos"
        self.runs = self.path / "runs"
        self.pictures = self.path / "pictures"
        self.scenes = self.path / "scenes"
        self._demos = LiveDemoFolder(self.demos_path)
        self._written: dict[str, tuple[PointCloud, PointCloud | None]] = {}
        self.problems: list[str] = []

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder for this process.

        Raises:
            BusyError: Another studio has it.
        """
        make_folder(self.path)
        with alone(self.path / ".studio.lock", f"{self.path}: the folder of this studio"):
            yield

    def load(self, gripper: Gripper) -> Document:
        """What is there.

        Args:
            gripper: Of a folder that has no demonstrations yet.

        Raises:
            HandfulError: The demonstrations cannot be read. A scene that cannot be read is left
                out, and `problems` says why.
        """
        demos = self._demos.load()
        document = Document(gripper)
        if demos is not None:
            document = document.with_demos(demos)
        for file in self._scene_files()[:MAX_SCENES]:
            try:
                held = file.with_name(file.stem + HELD)
                grasp = read_cloud(held) if held.is_file() else None
                scene = Scene(file.stem, read_cloud(file), grasp)
            except HandfulError as error:
                self.problems.append(str(error))
                continue
            document = document.with_scene(scene)
            if file.suffix.lower() == ".ply":
                self._written[scene.name] = (scene.cloud, scene.grasp)
        return document

    def save(self, document: Document) -> None:
        """Bring the disk up to date; on return, everything is there.

        Scenes that became steps are removed only once the steps are on the disk.

        Raises:
            FileFormatError: It cannot be written.
        """
        wanted = {scene.name: (scene.cloud, scene.grasp) for scene in document.scenes}
        for name, (cloud, grasp) in wanted.items():
            old = self._written.get(name)
            if old is not None and old[0] is cloud and old[1] is grasp:
                continue
            make_subfolder(self.scenes)
            if grasp is not None:
                write_cloud(grasp, self.scenes / f"{name}{HELD}")
            else:
                remove_file(self.scenes / f"{name}{HELD}")
            if old is None or old[0] is not cloud:
                write_cloud(cloud, self.scenes / f"{name}.ply")
            self._written[name] = (cloud, grasp)
        self._demos.write(document.demos)
        for name in set(self._written) - set(wanted):
            for file in (f"{name}.ply", f"{name}{HELD}"):
                with contextlib.suppress(OSError):
                    (self.scenes / file).unlink(missing_ok=True)
            del self._written[name]

    def run_names(self) -> list[str]:
        """Names of the trainings that were begun, in order."""
        if not self.runs.is_dir():
            return []
        return sorted(one.name for one in self.runs.iterdir() if (one / "run.json").is_file())

    def _scene_files(self) -> list[Path]:
        if not self.scenes.is_dir():
            return []
        return sorted(
            file
            for file in self.scenes.iterdir()
            if file.suffix.lower() in CLOUD_SUFFIXES and not file.name.endswith(HELD)
        )

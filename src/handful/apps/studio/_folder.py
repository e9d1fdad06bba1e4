"""The studio's folder on disk.

FOLDER/demos/     the demonstration set, which `handful train` reads
FOLDER/scenes/    clouds that were opened and in which nothing is taught yet; beside each, where the
                  gripper was put in it so far
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
from handful.apps.studio._archive import MANIFEST
from handful.apps.studio._document import Document, Scene, free_name
from handful.apps.studio._notes import NOTES, noted, write_notes
from handful.clouds import read_cloud, write_cloud
from handful.demos import Gripper, LiveDemoFolder
from handful.errors import HandfulError

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
        self._written: dict[str, tuple[Scene, Path]] = {}
        """Scenes as they are on the disk, and the files of their clouds, by their names."""
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
                scene = self._read(file)
            except HandfulError as error:
                self.problems.append(str(error))
                continue
            document = document.with_scene(scene)
            named = document.scenes[-1]  # files may have names that scenes cannot have
            self._written[named.name] = (named, file)
        return document

    def _read(self, file: Path) -> Scene:
        """The scene of a file, with what stands beside it."""
        held = file.with_name(file.stem + HELD)
        grasp = read_cloud(held) if held.is_file() else None
        scene = Scene(file.stem, read_cloud(file), grasp)
        try:
            return noted(scene, file.with_name(file.stem + NOTES))
        except HandfulError as error:  # the cloud is good
            self.problems.append(str(error))
            return scene

    def save(self, document: Document) -> None:
        """Bring the disk up to date; on return, everything is there.

        Scenes that became steps are removed only once the steps are on the disk.

        Raises:
            FileFormatError: It cannot be written.
        """
        wanted = {scene.name for scene in document.scenes}
        for scene in document.scenes:
            self._save_scene(scene)
        self._demos.write(document.demos)
        for name in set(self._written) - wanted:
            _, file = self._written.pop(name)
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
            self._forget(file.stem)

    def _save_scene(self, scene: Scene) -> None:
        """Write what of a scene is another than on the disk."""
        old, file = self._written.get(scene.name, (None, self.scenes / f"{scene.name}.ply"))
        if old is scene:
            return
        make_subfolder(self.scenes)
        if old is None or old.grasp is not scene.grasp:
            held = file.with_name(file.stem + HELD)
            if scene.grasp is None:
                remove_file(held)
            else:
                write_cloud(scene.grasp, held)
        if old is None or old.cloud is not scene.cloud:
            write_cloud(scene.cloud, file)
        write_notes(scene, file.with_name(file.stem + NOTES))
        self._written[scene.name] = (scene, file)

    def _forget(self, stem: str) -> None:
        """Remove what stands beside a cloud that is gone."""
        for ending in (HELD, NOTES):
            with contextlib.suppress(OSError):
                (self.scenes / f"{stem}{ending}").unlink(missing_ok=True)

    def run_names(self) -> list[str]:
        """Names of the trainings that were begun, in order."""
        if not self.runs.is_dir():
            return []
        return sorted(one.name for one in self.runs.iterdir() if (one / "run.json").is_file())

    def free_run(self, name: str) -> str:
        """The name, or the next one under which nothing was trained."""
        taken = {one.name for one in self.runs.iterdir()} if self.runs.is_dir() else set()
        return free_name(name, taken)

    def _scene_files(self) -> list[Path]:
        if not self.scenes.is_dir():
            return []
        return sorted(
            file
            for file in self.scenes.iterdir()
            if file.suffix.lower() in CLOUD_SUFFIXES and not file.name.endswith(HELD)
        )

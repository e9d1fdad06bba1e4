"""What the rooms of a studio share: the state, the desk, the pages, and what was computed once."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import viser
from jaxtyping import Float

from handful.apps.studio._archive import ArchiveReader
from handful.apps.studio._click import SceneClick
from handful.apps.studio._config import StudioConfig
from handful.apps.studio._desk import Desk
from handful.apps.studio._document import Document
from handful.apps.studio._folder import StudioFolder
from handful.apps.studio._stage import Stage
from handful.apps.studio._state import Selection, State
from handful.apps.studio._viser import taken_upload
from handful.apps.studio._words import plain
from handful.checks import PosedStep
from handful.clouds import CloudReader, LevelOfDetail, PointCloud
from handful.demos import Action
from handful.errors import HandfulError
from handful.policy import ScenePoints

Pose = Float[np.ndarray, "4 4"]
Read = TypeVar("Read")

VIEW = np.array([0.9, -1.35, 1.05])
"""From what is looked at to the eye, in shares of 0.95 of its radius."""
RIGHT = np.cross(-VIEW, [0.0, 0.0, 1.0]) / np.linalg.norm(VIEW[:2])
"""To the right, as pages see it at first."""
MOST_KEPT = 12
"""Clouds of which trees and levels of detail are kept."""


@runtime_checkable
class Panel(Protocol):
    """Fields and buttons of a room."""

    folder: viser.GuiFolderHandle


@runtime_checkable
class Room(Protocol):
    """One of the four parts of a studio."""

    name: str
    stage: Stage

    @property
    def panel(self) -> Panel:
        """Its fields and buttons."""
        ...

    def open(self) -> None:
        """Show the room as things are now: it was closed, or something has changed."""
        ...

    def close(self) -> None:
        """Stop what moves by itself."""
        ...

    def key(self, name: str, shift: bool, alt: bool) -> None:
        """A key was pressed."""
        ...


class PreparedCloud:
    """A cloud with what is computed from it once.

    Args:
        cloud: The cloud.
    """

    def __init__(self, cloud: PointCloud) -> None:
        self.cloud = cloud
        self.levels = LevelOfDetail(cloud)
        self.posed = PosedStep.of(cloud, None, next(iter(Action)))
        self._points: ScenePoints | None = None

    @property
    def points(self) -> ScenePoints:
        """For snapping."""
        if self._points is None:
            self._points = ScenePoints(self.cloud.points)
        return self._points

    def shown(self, center: Float[np.ndarray, "3"] | None = None) -> PointCloud:
        """The points that pages get: few of a large cloud, and every one around a place."""
        if self.levels.cell == 0.0:
            return self.cloud
        return self.cloud.selected(self.levels.shown(center))


class Session:
    """A running studio, as its rooms see it.

    Args:
        config: What it was asked to be.
        folder: Its folder.
        document: What is taught there.
        server: Draws the pages.

    Attributes:
        on_change: Called when what is taught, or what is selected, is another.
    """

    def __init__(
        self,
        config: StudioConfig,
        folder: StudioFolder,
        document: Document,
        server: viser.ViserServer,
    ) -> None:
        self.config, self.folder, self.server = config, folder, server
        self.state = State(document, folder.save)
        self.reader = CloudReader(config.max_points)
        self.archives = ArchiveReader(config.max_points)
        self.desk = Desk(lambda sentence, _: self.tell(sentence, bad=True))
        self.click = SceneClick(server.scene, self.desk)
        self._said: viser.GuiMarkdownHandle | None = None
        self._prepared: OrderedDict[int, PreparedCloud] = OrderedDict()
        self.on_change: Callable[[], None] = lambda: None
        self.frame_of_view: tuple[Float[np.ndarray, "3"], float] = (np.zeros(3), 0.5)

    # --- words -----------------------------------------------------------------------------

    def say_in(self, line: viser.GuiMarkdownHandle) -> None:
        """Where sentences for people go."""
        self._said = line

    def tell(self, sentence: str, bad: bool = False) -> None:
        """Say something, on all pages."""
        if re.match(r"[a-z]+ ", sentence):  # and no name of a file
            sentence = sentence[0].upper() + sentence[1:]
        if self._said is not None:
            self._said.content = f"**{plain(sentence)}**" if bad else plain(sentence)
        if bad:
            for client in self.server.get_clients().values():
                client.add_notification("Not done", sentence, color="red", auto_close=8000)

    # --- state -----------------------------------------------------------------------------

    @property
    def selection(self) -> Selection:
        """What is looked at, in whatever room."""
        return self.state.selection

    def select(self, selection: Selection) -> None:
        """Look at something else."""
        self.state.selection = self.state.nearest(selection)

    def change(
        self,
        what: str,
        document: Document,
        selection: Selection | None = None,
        part_of: str = "",
    ) -> None:
        """Change what is taught; it is on the disk when this returns.

        Args:
            what: The change in words.
            document: What is taught from now on.
            selection: What to look at from now on; what is looked at now if not given.
            part_of: As for `State.change`.
        """
        self.state.change(what, document, part_of, selection)
        self.changed()
        self.tell(f"Saved: {what}.")

    def changed(self) -> None:
        """Let the room that is open show what changed."""
        self.on_change()

    def clouds(self) -> tuple[PointCloud | None, PointCloud | None]:
        """Scene and grasp cloud of what is selected."""
        chosen = self.selection
        if chosen.is_step:
            step = self.state.document.step(chosen.demo, chosen.step)
            return step.scene, step.grasp
        if not chosen.scene:
            return None, None
        scene = self.state.document.scene(chosen.scene)
        return scene.cloud, scene.grasp

    def prepared(self, cloud: PointCloud) -> PreparedCloud:
        """A cloud with what is computed from it once."""
        found = self._prepared.get(id(cloud))
        if found is None or found.cloud is not cloud:
            found = self._prepared[id(cloud)] = PreparedCloud(cloud)
        self._prepared.move_to_end(id(cloud))
        while len(self._prepared) > MOST_KEPT:
            self._prepared.popitem(last=False)
        return found

    # --- pages -----------------------------------------------------------------------------

    def clicked(self, button: Any, work: Callable[[viser.ClientHandle | None], None]) -> None:
        """Do something at the desk when a button is clicked; told the page that did it."""
        button.on_click(lambda event: self.desk.do(partial(work, event.client)))

    def uploaded(
        self,
        button: Any,
        read: Callable[[bytes, str], Read],
        work: Callable[[str, Read], None],
    ) -> None:
        """Do something at the desk with a file that a page uploads.

        Args:
            button: For files.
            read: Given content and name of a file; called in a thread of its own.
            work: Given the file's name and what was read.
        """

        async def on_upload(event: Any) -> None:  # the next file has not come before it ends
            file = taken_upload(event.target)
            name = Path(file.name).name
            self.tell(f"Reading {name} ...")
            self.aside(partial(read, file.content, name), partial(work, name))

        button.on_upload(on_upload)

    def aside(self, read: Callable[[], Read], work: Callable[[Read], None]) -> None:
        """Read something in a thread of its own, and go on at the desk: nobody waits for it."""

        def thread() -> None:
            try:
                found = read()
            except HandfulError as error:
                self.tell(str(error), bad=True)
            else:
                self.desk.do(partial(work, found))

        threading.Thread(target=thread, name="studio-reading", daemon=True).start()

    def edited(self, field: Any, work: Callable[[], None], key: str = "") -> None:
        """Do something at the desk when a person changes a field, not when we do.

        Args:
            field: The field.
            work: What to do.
            key: As for `Desk.do`.
        """

        def on_update(event: Any) -> None:
            if event.client is not None:
                self.desk.do(work, key)

        field.on_update(on_update)

    def look_over(self, points: Float[np.ndarray, "points 3"]) -> None:
        """Let all pages look at the whole of some points, but for a few that are far away."""
        low, high = np.percentile(points, [2.0, 98.0], axis=0)
        self.frame_of_view = (low + high) / 2.0, float(np.linalg.norm(high - low)) / 2.0
        for client in self.server.get_clients().values():
            self.aim(client)

    def aim(self, client: viser.ClientHandle) -> None:
        """Let a page look at what is shown."""
        center, radius = self.frame_of_view
        client.camera.position = center + 0.95 * radius * VIEW  # moves `look_at` along
        client.camera.look_at = center

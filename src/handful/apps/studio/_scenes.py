"""The list of scenes that every room offers."""

from __future__ import annotations

from typing import Any

import viser

from handful.apps.studio._session import Session
from handful.apps.studio._state import Selection
from handful.clouds import PointCloud
from handful.errors import OptionError

NOTHING = "(nothing is open)"


def set_options(field: Any, options: tuple[str, ...], value: str) -> None:
    """Other options and value of a list, sent only where they differ."""
    if tuple(field.options) != options:
        field.options = options
    if field.value != value:
        field.value = value


class SceneChoice:
    """A list of everything that is open, new scenes first.

    Args:
        session: The studio.
        gui: Of the pages; the list is added to what is being built.
    """

    def __init__(self, session: Session, gui: viser.GuiApi) -> None:
        self._session = session
        self.field = gui.add_dropdown("Scene", (NOTHING,), NOTHING)

    def refresh(self) -> None:
        """Offer what there is; what was chosen stays where it can."""
        every = self._session.state.selections()
        labels = [one.label for one in every if not one.is_step]
        labels += [one.label for one in every if one.is_step]
        options = tuple(labels) or (NOTHING,)
        value = self.field.value if self.field.value in options else options[0]
        set_options(self.field, options, value)

    def follow(self, step: str) -> None:
        """Choose the step of that name, where another step of a demonstration is chosen."""
        chosen = self.chosen
        other = Selection(demo=chosen.demo, step=step)
        if chosen.is_step and other in self._session.state.selections():
            self.field.value = other.label

    @property
    def chosen(self) -> Selection:
        """What is chosen; nothing if nothing is open."""
        every = self._session.state.selections()
        return next((one for one in every if one.label == self.field.value), Selection())

    def clouds(self) -> tuple[PointCloud, PointCloud | None]:
        """Scene and grasp cloud.

        Raises:
            OptionError: Nothing is open.
        """
        chosen, document = self.chosen, self._session.state.document
        if chosen.is_step:
            step = document.step(chosen.demo, chosen.step)
            return step.scene, step.grasp
        if not chosen.scene:
            raise OptionError("nothing is open: open a cloud in the room Teach first.")
        scene = document.scene(chosen.scene)
        return scene.cloud, scene.grasp

"""The list of scenes that every room offers."""

from __future__ import annotations

from collections.abc import Callable
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
    """A list of everything that is open, new scenes first: what is chosen is chosen in all rooms.

    Args:
        session: The studio.
        gui: Of the pages; the list is added to what is being built.
    """

    def __init__(self, session: Session, gui: viser.GuiApi) -> None:
        self._session = session
        self._field = gui.add_dropdown("Scene", (NOTHING,), NOTHING)

    def on_choice(self, work: Callable[[], None]) -> None:
        """Do something when a person has chosen."""

        def choose() -> None:
            every = self._session.state.selections()
            found = [one for one in every if one.label == self.label]
            if found:
                self._session.select(found[0])
                work()

        self._session.edited(self._field, choose)

    @property
    def label(self) -> str:
        """What is chosen, in words."""
        return str(self._field.value)

    def refresh(self) -> None:
        """Offer what there is."""
        every = self._session.state.selections()
        labels = [one.label for one in every if not one.is_step]
        labels += [one.label for one in every if one.is_step]
        chosen = self._session.selection.label if labels else NOTHING
        set_options(self._field, tuple(labels) or (NOTHING,), chosen)

    def follow(self, step: str) -> None:
        """Choose the step of that name, where another step of a demonstration is chosen."""
        chosen = self._session.selection
        other = Selection(demo=chosen.demo, step=step)
        if chosen.is_step and other in self._session.state.selections():
            self._session.select(other)
            self.refresh()

    def clouds(self) -> tuple[PointCloud, PointCloud | None]:
        """Scene and grasp cloud.

        Raises:
            OptionError: Nothing is open.
        """
        scene, grasp = self._session.clouds()
        if scene is None:
            raise OptionError("nothing is open: open a cloud in the room Teach first.")
        return scene, grasp

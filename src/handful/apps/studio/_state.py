"""The one state of a studio: what is taught, what can be undone, and what is looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from handful.apps.studio._document import Document

MOST_UNDONE = 200
"""Changes that can be taken back."""


@dataclass(frozen=True)
class Selection:
    """What a room shows: a scene, or one pose of a step of a demonstration; or nothing.

    Attributes:
        scene: Name of a scene; empty for a step.
        demo: Name of a demonstration.
        step: Name of its step.
        target: Which of the right poses.
    """

    scene: str = ""
    demo: str = ""
    step: str = ""
    target: int = 0

    @property
    def is_step(self) -> bool:
        """Whether it is a step that is taught."""
        return bool(self.demo)

    @property
    def label(self) -> str:
        """For people; the same for all poses of a step."""
        return f"{self.demo} · {self.step}" if self.is_step else f"new: {self.scene}"


@dataclass(frozen=True)
class _Moment:
    """What was taught, and what was looked at."""

    document: Document
    selection: Selection


@dataclass(frozen=True)
class _Change:
    """A change in words, and what there was before and after it."""

    what: str
    before: _Moment
    after: _Moment


class State:
    """What is taught, with undo and redo; every change is on the disk when it returns.

    Args:
        document: What there is at the beginning.
        save: Writes a document.

    Attributes:
        selection: What is looked at, in whatever room.
    """

    def __init__(self, document: Document, save: Callable[[Document], None]) -> None:
        self._save = save
        self._document = document
        self._past: list[_Change] = []
        self._future: list[_Change] = []
        self._part_of = ""
        self.selection = self.nearest(Selection())

    @property
    def document(self) -> Document:
        """What is taught now."""
        return self._document

    @property
    def undoable(self) -> str:
        """What the next undo takes back, in words; empty if nothing."""
        return self._past[-1].what if self._past else ""

    @property
    def redoable(self) -> str:
        """What the next redo does again."""
        return self._future[-1].what if self._future else ""

    def change(
        self,
        what: str,
        document: Document,
        part_of: str = "",
        selection: Selection | None = None,
    ) -> None:
        """Go on with another document, once it is on the disk.

        Args:
            what: The change in words.
            document: The new one.
            part_of: Names something longer, a drag of the mouse for example: changes of one name
                that follow each other are undone together.
            selection: What is looked at from now on; what is looked at now if not given.

        Raises:
            FileFormatError: It cannot be written; the document is still the old one.
        """
        self._save(document)
        before = _Moment(self._document, self.selection)
        self._document = document
        self.selection = self.nearest(selection or self.selection)
        if part_of and part_of == self._part_of and self._past:
            before = self._past.pop().before
        self._past.append(_Change(what, before, _Moment(document, self.selection)))
        del self._past[:-MOST_UNDONE]
        self._part_of = part_of
        self._future.clear()

    def undo(self) -> str:
        """Take the last change back, and look at what it changed; says which, or nothing."""
        if not self._past:
            return ""
        self._go_to(self._past[-1].before)
        self._future.append(self._past.pop())
        return self._future[-1].what

    def redo(self) -> str:
        """Do the change again that was taken back last, and look at it; says which, or nothing."""
        if not self._future:
            return ""
        self._go_to(self._future[-1].after)
        self._past.append(self._future.pop())
        return self._past[-1].what

    def _go_to(self, moment: _Moment) -> None:
        self._save(moment.document)
        self._part_of = ""
        self._document = moment.document
        self.selection = self.nearest(moment.selection)

    # --- looking ---------------------------------------------------------------------------

    def selections(self) -> list[Selection]:
        """Everything that can be looked at: steps in their order, then scenes."""
        steps = [
            Selection(demo=demo.name, step=step.name)
            for demo in self._document.demonstrations
            for step in demo.steps
        ]
        return steps + [Selection(scene=scene.name) for scene in self._document.scenes]

    def nearest(self, wanted: Selection) -> Selection:
        """The selection, or what there is instead of it when it is gone."""
        there = self.selections()
        for one in there:
            if (one.scene, one.demo, one.step) == (wanted.scene, wanted.demo, wanted.step):
                if not one.is_step:
                    return one
                poses = len(self._document.step(one.demo, one.step).targets)
                return Selection(demo=one.demo, step=one.step, target=min(wanted.target, poses - 1))
        new = [one for one in there if not one.is_step]
        return (new or there or [Selection()])[0]

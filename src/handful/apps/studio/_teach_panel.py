"""The panel of the room Teach: its fields and buttons, and what they say."""

from __future__ import annotations

import viser

from handful.apps.studio._document import Document
from handful.apps.studio._scenes import NOTHING, set_options
from handful.apps.studio._state import Selection, State
from handful.demos import HANDS, Action

NEW = "a new demonstration"
OWN_HAND = "(its own)"
ACROSS, ALONG = "opens across it", "approaches it"


class TeachPanel:
    """Fields and buttons.

    Args:
        gui: Of the pages.
        local: Whether paths of this computer may be opened.
    """

    def __init__(self, gui: viser.GuiApi, local: bool) -> None:
        self._proposed = ""
        self.folder = gui.add_folder("Teach")
        with self.folder:
            self.upload = gui.add_upload_button(
                "Open a cloud...",
                icon=viser.Icon.UPLOAD,
                hint="PLY, PCD or NPZ; or a demonstration set or RGB-D recordings, as a ZIP file.",
            )
            with gui.add_folder("From this computer", expand_by_default=False, visible=local):
                self.path = gui.add_text(
                    "Path", "", hint="PLY, PCD, NPZ, a demonstration set, or RGB-D recordings."
                )
                self.open = gui.add_button("Open the path", icon=viser.Icon.FOLDER_OPEN)
            self.showing = gui.add_dropdown("Showing", (NOTHING,), NOTHING)
            self.target = gui.add_slider("Pose", 1, 2, 1, 1, visible=False)
            self.click = gui.add_button("Put it where I click", icon=viser.Icon.POINTER)
            self.where = gui.add_markdown("")
            self.checks = gui.add_markdown("")
            self.step_folder = gui.add_folder("This step")
            with self.step_folder:
                self.step = gui.add_text("Name", next(iter(Action)).value)
                self.action = gui.add_dropdown(
                    "Gripper here", tuple(one.value for one in Action), next(iter(Action)).value
                )
                self.demo = gui.add_dropdown("Belongs to", (NEW,), NEW)
                self.add = gui.add_button("Add this step", icon=viser.Icon.PLUS, color="green")
            self.taught_folder = gui.add_folder("Taught")
            with self.taught_folder:
                self.next_step = gui.add_button("Next step from here")
                self.another_pose = gui.add_button("Another right pose")
                self.remove_pose = gui.add_button("Remove this pose")
            self.held_folder = gui.add_folder("In the gripper")
            with self.held_folder:  # the page shows an upload button whatever its `visible`
                self.upload_held = gui.add_upload_button("What is held...", icon=viser.Icon.UPLOAD)
            with gui.add_folder("Gripper"):
                self.snap = gui.add_button("Snap to the surface", icon=viser.Icon.MAGNET)
                self.manner = gui.add_dropdown("Snapping", (ACROSS, ALONG), ACROSS)
                self.width = gui.add_slider("Width / mm", 0.0, 80.0, 0.5, 80.0)
                self.close_fingers = gui.add_button("Close on what is between")
                self.hand = gui.add_dropdown("Hand", (OWN_HAND, *HANDS), OWN_HAND)
            self.remove = gui.add_button("Remove", icon=viser.Icon.TRASH)

    def action_of(self, document: Document, chosen: Selection) -> Action:
        """Of the step that is shown, or that would be added."""
        if chosen.is_step:
            return document.step(chosen.demo, chosen.step).action
        return Action.named(self.action.value)

    @property
    def chosen_demo(self) -> str:
        """The demonstration that a new step belongs to; empty for a new one."""
        return "" if self.demo.value == NEW else str(self.demo.value)

    def chosen(self, state: State) -> Selection | None:
        """What the list says is to be shown."""
        for one in state.selections():
            if one.label == self.showing.value:
                if not one.is_step:
                    return one
                target = int(self.target.value) - 1 if self.target.visible else 0
                return state.nearest(Selection(demo=one.demo, step=one.step, target=target))
        return None

    def _offer_demos(self, document: Document, chosen: Selection) -> None:
        """Say what a scene belongs to and shows, as far as one can tell, when it is looked at."""
        names = (NEW, *(one.name for one in document.demonstrations))
        belongs = self.demo.value if self.demo.value in names else NEW
        new = bool(chosen.scene) and chosen.scene != self._proposed
        if new:
            follows = document.scene(chosen.scene).follows
            belongs = follows if follows in names else NEW
        self._proposed = chosen.scene
        set_options(self.demo, names, belongs)
        if new:
            self.propose(document, chosen)

    def propose(self, document: Document, chosen: Selection) -> None:
        """Name and action of the step that a scene would be in what it belongs to."""
        step = document.proposed_step(chosen.scene, self.chosen_demo)
        self.step.value, self.action.value = step.name, step.action.value

    def refresh(self, state: State, chosen: Selection) -> None:
        """Say what there is."""
        document = state.document
        labels = tuple(one.label for one in state.selections()) or (NOTHING,)
        set_options(self.showing, labels, chosen.label if chosen != Selection() else NOTHING)
        is_step, is_scene = chosen.is_step, bool(chosen.scene)
        poses = len(document.step(chosen.demo, chosen.step).targets) if is_step else 1
        self.target.visible = poses > 1
        if poses > 1:
            self.target.max = poses
            self.target.value = chosen.target + 1
        self._offer_demos(document, chosen)
        self.hand.value = document.gripper.name if document.gripper.name in HANDS else OWN_HAND
        opening = round(1000.0 * document.gripper.opening, 1)
        if self.width.max != opening:
            self.width.max = opening
            self.width.value = opening
        self.step_folder.visible = is_scene
        self.taught_folder.visible = is_step
        self.remove_pose.visible = poses > 1
        there = is_step or is_scene
        self.held_folder.visible = there and self.action_of(document, chosen).holding
        self.remove.visible = there
        self.remove.label = "Take this step back" if is_step else "Close this scene"

"""The room Teach: put the gripper where it belongs, step by step, scene by scene."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from handful.apps._listening import is_loopback
from handful.apps.studio._click import Ray
from handful.apps.studio._document import Document, Scene
from handful.apps.studio._hand import Hand
from handful.apps.studio._judged import judged, told_checks
from handful.apps.studio._opening import Change, opened_path, opened_upload
from handful.apps.studio._posing import first_pose, nudged
from handful.apps.studio._session import Pose, Session
from handful.apps.studio._stage import Stage
from handful.apps.studio._state import Selection
from handful.apps.studio._teach_panel import ACROSS, TeachPanel
from handful.apps.studio._words import plain
from handful.checks import PosedStep
from handful.clouds import PointCloud
from handful.demos import HANDS, Action, Gripper, gripper_named
from handful.errors import OptionError
from handful.policy import points_taken, snapped, width_between

QUIET = 0.35
"""Seconds without a move after which a drag is over: the pose is saved."""
HELD = 3.0
"""The same while the mouse is held down, so that saving does not come between two moves."""
ASTRAY = 0.04
"""Metres from where every detail of the scene is shown after which it is shown elsewhere."""


class TeachRoom:
    """Opens clouds, drags the gripper, adds steps, mends what was taught.

    Args:
        session: The studio.
    """

    name = "Teach"

    def __init__(self, session: Session) -> None:
        self._session = session
        self.stage = Stage(session.server.scene, "teach")
        self._hand = Hand(self.stage, "gripper")
        self.panel = TeachPanel(session.server.gui, is_loopback(session.config.host))
        self._shown: tuple[PointCloud, Gripper] | None = None
        self._seen = Selection()
        self._posed: PosedStep | None = None
        self.pose: Pose = np.eye(4)
        self._drag, self._grabbed, self._lost = 0, False, False
        self._detailed = np.full(3, np.inf)
        self._connect()

    def _connect(self) -> None:
        session, panel = self._session, self.panel
        read = partial(opened_upload, reader=session.reader, archives=session.archives)
        session.uploaded(panel.upload, read, self._uploaded)
        session.uploaded(panel.upload_held, session.reader.read_bytes, self._uploaded_held)
        panel.open.on_click(lambda _: session.aside(self._read_path, self._opened))
        session.edited(panel.showing, self._selected)
        session.edited(panel.target, self._selected)
        session.edited(panel.hand, self._regrip)
        session.edited(panel.action, self.refresh)
        session.edited(panel.demo, self._belongs)
        session.edited(panel.width, self._look, "width")
        session.clicked(panel.add, lambda _: self._add())
        session.clicked(panel.next_step, lambda _: self._next_step())
        session.clicked(panel.click, lambda _: self._wait_for_click())
        session.clicked(panel.snap, lambda _: self._snap())
        session.clicked(panel.close_fingers, lambda _: self._close_fingers())
        session.clicked(panel.another_pose, lambda _: self._another_pose())
        session.clicked(panel.remove_pose, lambda _: self._remove_pose())
        session.clicked(panel.remove, lambda _: self._remove())

    # --- the room --------------------------------------------------------------------------

    def open(self) -> None:
        """Show what is selected."""
        self.refresh()

    def close(self) -> None:
        """Save what was dragged last."""
        self._session.desk.at_once("commit")
        self._shown = None  # other rooms let the pages look elsewhere

    def key(self, name: str, shift: bool, alt: bool) -> None:
        """Nudge, or snap; or the mouse was pressed or let go."""
        if name == "grab":
            self._grabbed = True
        elif name == "release":  # the gizmo's last place may come later than this
            self._grabbed = False
            self._session.desk.later("release", 2.0 * QUIET, self._let_go)
        elif name == "snap":
            self._snap()
        elif self._posed is not None:
            moved = nudged(self.pose, self._document.gripper, name, shift, alt)
            # A key that is held down is one change.
            self._put(moved, more=self._session.desk.awaits("commit"))

    @property
    def _document(self) -> Document:
        return self._session.state.document

    @property
    def _action(self) -> Action:
        """Of the step that is shown, or that would be added."""
        return self.panel.action_of(self._document, self._session.selection)

    @property
    def _contact(self) -> np.ndarray:
        """Contact point of the gripper, scene frame."""
        return (self.pose @ self._document.gripper.T_gripper_contact)[:3, 3].copy()

    # --- showing ---------------------------------------------------------------------------

    def refresh(self) -> None:
        """Bring panel and stage up to date."""
        session, document = self._session, self._document
        chosen = session.selection
        self.panel.refresh(session.state, chosen)
        scene, grasp = session.clouds()
        if scene is None:
            self.stage.clear()
            self._posed, self._shown, self._seen = None, None, chosen
            self.panel.where.content = ""
            self.panel.checks.content = (
                "Open a cloud above: PLY, PCD or NPZ, in metres, with z up. Then drag the gripper."
            )
            return
        if chosen != self._seen:
            self._seen, self._lost = chosen, self._grabbed
        self.pose = self._kept_pose(scene)
        self._posed = session.prepared(scene).posed.changed(grasp, self._action)
        before, hand = self._shown or (None, None)
        self._shown = scene, document.gripper
        if scene is not before:
            session.look_over(scene.points)
        if scene is before and document.gripper is hand:
            self._hand.place(self.pose)
        else:
            self._hand.show(self.pose, document.gripper, on_move=self._on_move)
            self._draw_scene()
        self._hand.hold(grasp if self._action.holding else None)
        self._look()

    def _kept_pose(self, scene: PointCloud) -> Pose:
        """Where the gripper stands in what is selected; above the scene where nobody put it."""
        chosen, document = self._session.selection, self._document
        if chosen.is_step:
            return document.step(chosen.demo, chosen.step).targets[chosen.target].copy()
        pose = document.scene(chosen.scene).pose
        return first_pose(scene, document.gripper) if pose is None else pose.copy()

    def _draw_scene(self) -> None:
        scene, _ = self._session.clouds()
        if scene is not None:
            self._detailed = self._contact
            self.stage.cloud("scene", self._session.prepared(scene).shown(self._detailed))

    def _look(self, thorough: bool = True) -> None:
        """Measure the pose, and let the panel and the hand's colour say it."""
        if self._posed is None:
            return
        told = self._posed.told(self.pose, self._document.gripper, thorough)
        self._hand.look(self.panel.width.value / 1000.0, judged(told))
        self.panel.checks.content = told_checks(told)
        x, y, z = self._contact * 1000.0
        self.panel.where.content = plain(f"Contact point: {x:.1f}, {y:.1f}, {z:.1f} mm")

    # --- moving ----------------------------------------------------------------------------

    def _on_move(self, pose: Pose) -> None:
        """The gizmo was dragged; called in a thread of the pages."""
        self._session.desk.do(partial(self._dragged, pose), "drag")

    def _dragged(self, pose: Pose) -> None:
        if self._lost:  # it was dragged in another scene than the one that is shown now
            self._hand.place(self.pose)
        else:
            self._move(pose)

    def _move(self, pose: Pose) -> None:
        self.pose = pose
        self._look(thorough=False)
        self._session.desk.later("commit", HELD if self._grabbed else QUIET, self._commit)

    def _let_go(self) -> None:
        self._released()
        self._lost = self._lost and self._grabbed

    def _released(self) -> None:
        """What is dragged from now on is undone by itself."""
        self._session.desk.at_once("commit")
        self._drag += 1

    def _put(self, pose: Pose, more: bool = False) -> None:
        """Move the gripper, other than by the gizmo.

        Args:
            pose: T_scene_gripper.
            more: Whether it is undone together with what was moved last.
        """
        if not more:
            self._released()
        self._hand.place(pose)
        self._move(pose)

    def _commit(self) -> None:
        """A drag is over: keep the pose."""
        chosen, scene = self._session.selection, self._session.clouds()[0]
        if scene is None:
            return
        if np.array_equal(self._kept_pose(scene), self.pose):
            self._look()
        else:
            kept = (
                self._document.with_pose(chosen.demo, chosen.step, chosen.target, self.pose)
                if chosen.is_step
                else self._document.with_draft(chosen.scene, self.pose)
            )
            part_of = f"drag {self._drag} of {chosen}"
            where = chosen.label if chosen.is_step else chosen.scene
            self._session.change(f"gripper moved in {where}", kept, part_of=part_of)
        astray = float(np.linalg.norm(self._contact - self._detailed)) > ASTRAY
        if astray and self._session.prepared(scene).levels.cell:
            self._draw_scene()  # every detail around where the gripper is now

    def _need_scene(self) -> PointCloud:
        scene, _ = self._session.clouds()
        if scene is None:
            raise OptionError("nothing is open: open a cloud first.")
        return scene

    def _snap(self) -> None:
        self._put(self._snapped(self._need_scene()))

    def _snapped(self, scene: PointCloud, spot: np.ndarray | None = None) -> Pose:
        points = self._session.prepared(scene).points
        across = self.panel.manner.value == ACROSS
        return snapped(self.pose, self._document.gripper, points, spot, across=across)

    def _wait_for_click(self) -> None:
        """The next click on the scene puts the gripper there."""
        self._need_scene()
        self._session.tell("Click on the scene: the gripper goes there.")
        self._session.click.wait(self._clicked)

    def _clicked(self, ray: Ray) -> None:
        scene = self._need_scene()
        points = self._session.prepared(scene).points
        spot = points.hit(*ray)
        if spot is None:
            raise OptionError("nothing of the scene is there: click on its points.")
        self._put(self._snapped(scene, spot))
        self._session.desk.at_once("commit")
        self._session.tell("The gripper is where you clicked.")

    def _close_fingers(self) -> None:
        scene = self._need_scene()
        width = width_between(scene.points, self.pose, self._document.gripper)
        if width is None:
            raise OptionError("nothing of the scene is between the fingers: move the gripper.")
        self.panel.width.value = round(1000.0 * width, 1)
        self._look()

    # --- teaching --------------------------------------------------------------------------

    def _settled(self) -> Document:
        """What is taught, once what was dragged last is part of it."""
        self._session.desk.at_once("commit")
        return self._document

    def _uploaded(self, name: str, change: Change) -> None:
        self._opened((Path(name).stem, change))

    def _uploaded_held(self, name: str, held: PointCloud) -> None:
        document, chosen = self._settled(), self._session.selection
        if chosen.is_step:
            document = document.with_grasp(chosen.demo, chosen.step, held)
        elif chosen.scene:
            document = document.with_held(chosen.scene, held)
        else:
            raise OptionError("open a scene first: what is held belongs to a step.")
        self._session.change(f"what is held in {chosen.label}", document)

    def _read_path(self) -> tuple[str, Change]:
        path = Path(self.panel.path.value.strip()).expanduser()
        return path.name, opened_path(path, self._session.reader)

    def _opened(self, read: tuple[str, Change]) -> None:
        name, change = read
        before = self._settled()
        document = change(before)
        chosen = (
            Selection(scene=document.scenes[-1].name)
            if len(document.scenes) > len(before.scenes)
            else Selection(
                demo=document.demonstrations[-1].name,
                step=document.demonstrations[-1].steps[0].name,
            )
        )
        what = chosen.scene or name
        self._session.change(f"{what} opened", document, chosen)

    def _selected(self) -> None:
        """Another entry of the list, or another of its poses, was chosen."""
        self._session.desk.at_once("commit")
        chosen = self.panel.chosen(self._session.state)
        if chosen is not None:
            self._session.select(chosen)
            self._session.changed()

    def _belongs(self) -> None:
        """The scene belongs to another demonstration: propose what comes next there."""
        if self._session.selection.scene:
            self.panel.propose(self._document, self._session.selection)
        self.refresh()

    def _regrip(self) -> None:
        name = self.panel.hand.value
        if name in HANDS:
            document = self._settled().with_gripper(gripper_named(name))
            self._session.change(f"the gripper is a {name}", document)

    def _add(self) -> None:
        document, chosen = self._settled(), self._session.selection
        if not chosen.scene:
            raise OptionError("open a scene first, or choose one that is new in the list.")
        step, demo = self.panel.step.value.strip(), self.panel.chosen_demo
        document = document.taught(chosen.scene, step, self._action, self.pose, demo)
        name = demo or document.demonstrations[-1].name
        left = document.scenes
        follow = Selection(scene=left[0].name) if left else Selection(demo=name, step=step)
        self._session.change(f"{step} of {name} added", document, follow)

    def _next_step(self) -> None:
        """A scene for the step after the one that is shown: what was taken is in the gripper."""
        chosen = self._need_step("the next step")
        step = self._document.step(chosen.demo, chosen.step)
        scene, grasp = step.scene, None
        if not step.action.holding:
            taken = points_taken(scene, self.pose, self._document.gripper)
            if not taken:
                raise OptionError(
                    f"what is taken cannot be told from the scene: {taken.why_not}. Upload the "
                    "scene of the next step, and what is held."
                )
            grasp = scene.selected(taken.points).transformed(np.linalg.inv(self.pose))
            scene = scene.selected(~taken.points)
        place = 1 + self._document.place_of(chosen.demo, chosen.step)
        new = Scene(chosen.demo, scene, grasp, follows=chosen.demo, place=place)
        document = self._document.with_scene(new)
        name = document.scenes[-1].name
        self._session.change(f"{name} opened", document, Selection(scene=name))

    def _another_pose(self) -> None:
        chosen = self._need_step("another right pose")
        document = self._document.with_further_pose(chosen.demo, chosen.step, self.pose)
        last = len(document.step(chosen.demo, chosen.step).targets) - 1
        self._session.change(
            f"a pose of {chosen.label} added",
            document,
            Selection(demo=chosen.demo, step=chosen.step, target=last),
        )

    def _remove_pose(self) -> None:
        chosen = self._need_step("a pose to remove")
        document = self._document.without_pose(chosen.demo, chosen.step, chosen.target)
        self._session.change(f"a pose of {chosen.label} removed", document)

    def _need_step(self, what: str) -> Selection:
        self._session.desk.at_once("commit")
        chosen = self._session.selection
        if not chosen.is_step:
            raise OptionError(f"{what} belongs to a step that is taught: add this one first.")
        return chosen

    def _remove(self) -> None:
        """Remove what is selected: a step becomes a new scene again, a scene goes."""
        document, chosen = self._settled(), self._session.selection
        if chosen.is_step:
            document = document.without_step(chosen.demo, chosen.step)
            follow = document.scenes[-1].name
            document = document.with_draft(follow, self.pose)
            what = f"{chosen.label} is not taught any more"
            self._session.change(what, document, Selection(scene=follow))
        elif chosen.scene:
            document = document.without_scene(chosen.scene)
            self._session.change(f"{chosen.scene} closed", document)

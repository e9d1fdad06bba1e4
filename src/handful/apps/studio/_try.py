"""The room Try: what a trained model would do in any scene, and why it would not."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import viser

from handful.answers import AnsweredPose, PoseAnswer
from handful.apps.studio._episodes import EpisodePanel
from handful.apps.studio._hand import CALM, WRONG, Hand
from handful.apps.studio._models import NONE, Models, held_for
from handful.apps.studio._scenes import SceneChoice, set_options
from handful.apps.studio._session import RIGHT, Pose, Session
from handful.apps.studio._stage import Stage
from handful.apps.studio._words import plain
from handful.clouds import PointCloud
from handful.errors import OptionError
from handful.policy import Predictor
from handful.render import Color, ball_mesh, joined

POSES = 30
"""Poses that are asked for."""
TICK = 0.06
"""Seconds between two places of the ghost."""
ROUND = 4.0
"""Seconds of the ghost's way: to the pose, a rest, and back."""
GHOST: Color = (0.45, 0.5, 0.6)
GOOD: Color = (0.16, 0.55, 0.32)


@dataclass
class _Side:
    """One model's answer, drawn at one side.

    Attributes:
        label: Of the model.
        predictor: The model.
        answer: All poses.
        held: What the gripper holds.
        root: Name of the side among the stage's things.
        hand: At the pose that is shown.
        ghost: On its way there and back.
        sure: The poses that are sure enough, in their order.
        shown: One of these, or None.
    """

    label: str
    predictor: Predictor
    answer: PoseAnswer
    held: PointCloud | None
    root: str
    hand: Hand
    ghost: Hand
    sure: list[AnsweredPose] = field(default_factory=list)
    shown: AnsweredPose | None = None


class TryRoom:
    """Ranked poses in a scene, by one model or by two.

    Args:
        session: The studio.
        models: That can be tried.
    """

    name = "Try"

    def __init__(self, session: Session, models: Models) -> None:
        self._session, self._models = session, models
        self.stage = Stage(session.server.scene, "try")
        self.panel = TryPanel(session)
        self._sides: list[_Side] = []
        self._begun = 0.0
        self._seen = (0, 0)
        panel = self.panel
        session.clicked(panel.find, lambda _: self._find())
        session.edited(panel.model, self._model_chosen)
        session.edited(panel.second, self._find)
        panel.scene.on_choice(self._scene_chosen)
        session.edited(panel.rank, self._show_rank, "rank")
        session.edited(panel.confidence, self._show_sure, "sure")
        session.edited(panel.ghost, self._show_rank, "rank")
        self.episodes = EpisodePanel(session, models, panel.folder, self.stage)

    def open(self) -> None:
        """Offer what there is, and show the scene."""
        self.panel.scene.refresh()
        labels = self._models.labels()
        fitting = self._models.fitting(self.panel.model.value, self._session.selection.step)
        self.panel.offer(labels, fitting)
        self.episodes.offer()
        scene, _ = self._session.clouds()
        if scene is None:
            self._forget()
            self.panel.told.content = "Nothing is open: open a cloud in the room Teach."
        elif not labels:
            self._show_scene(scene, [])
            self.panel.told.content = "There is no trained model yet: go to the room Train."
        else:
            self._find()

    def close(self) -> None:
        """Stop the ghost."""
        self._seen = (0, 0)  # other rooms let the pages look elsewhere
        self._session.desk.drop("ghost")
        self.episodes.stop()

    def key(self, name: str, shift: bool, alt: bool) -> None:
        """Arrows go from pose to pose."""
        step = {"ArrowRight": 1, "ArrowUp": 1, "ArrowLeft": -1, "ArrowDown": -1}.get(name, 0)
        if step and self._sides:
            last = int(self.panel.rank.max)
            self.panel.rank.value = min(max(int(self.panel.rank.value) + step, 1), last)
            self._show_rank()

    # --- asking ----------------------------------------------------------------------------

    def _model_chosen(self) -> None:
        self.panel.scene.follow(self._models.run_of(self.panel.model.value)[1])
        self._find()

    def _scene_chosen(self) -> None:
        step = self._session.selection.step
        self.panel.model.value = self._models.fitting(self.panel.model.value, step)
        self._find()

    def _find(self) -> None:
        """Ask the chosen models."""
        chosen = [one for one in (self.panel.model.value, self.panel.second.value) if one != NONE]
        scene, grasp = self.panel.scene.clouds()
        self._show_scene(scene, chosen)
        if not chosen:
            raise OptionError("there is no trained model yet: go to the room Train.")
        self._session.tell("Looking for poses ...")
        gripper = self._session.state.document.gripper
        predictors = [self._models.predictor(one, gripper) for one in chosen]
        held = [held_for(one, grasp) for one in predictors]
        answers = [
            one.answer(scene, what, n=POSES) for one, what in zip(predictors, held, strict=True)
        ]
        self._draw(scene, chosen, predictors, answers, held)
        seconds = sum(one.seconds for one in answers)
        self._session.tell(f"{sum(map(len, answers))} poses in {seconds:.1f} s.")

    def _forget(self) -> None:
        """Show nothing."""
        self._session.desk.drop("ghost")
        self._sides = []
        self.panel.told.content = ""
        self.stage.clear()

    def _show_scene(self, scene: PointCloud, labels: list[str]) -> None:
        """The scene, once for each model, and no pose: nobody was asked yet."""
        self._forget()
        low, high = np.percentile(scene.points, [2.0, 98.0], axis=0)
        apart = 1.1 * float(np.abs(RIGHT) @ (high - low)) * RIGHT
        for number in range(max(1, len(labels))):
            shift = np.eye(4)
            shift[:3, 3] = number * apart
            self.stage.group(f"side{number}", shift)
            self.stage.cloud(f"side{number}/scene", self._session.prepared(scene).shown())
            if len(labels) > 1:
                top = np.array([*(low + high)[:2] / 2.0, scene.points[:, 2].max() + 0.1])
                self.stage.label(f"side{number}/label", labels[number], top)
        if self._seen != (id(scene), len(labels)):  # else people have turned the view to it
            self._seen = id(scene), len(labels)
            shown = [scene.points + number * apart for number in range(max(1, len(labels)))]
            self._session.look_over(np.concatenate(shown))

    def _draw(
        self,
        scene: PointCloud,
        labels: list[str],
        predictors: list[Predictor],
        answers: list[PoseAnswer],
        held: list[PointCloud | None],
    ) -> None:
        for number, (predictor, answer) in enumerate(zip(predictors, answers, strict=True)):
            root = f"side{number}"
            prepared = self._session.prepared(scene)
            if answer.poses and prepared.levels.cell:  # every point of a large cloud at the best
                center = self._contact(answer.poses[0], predictor)
                self.stage.cloud(f"{root}/scene", prepared.shown(center))
            hands = Hand(self.stage, f"{root}/hand"), Hand(self.stage, f"{root}/ghost")
            self._sides.append(_Side(labels[number], predictor, answer, held[number], root, *hands))
        self.panel.rank.max = max(2, *(len(one) for one in answers))
        self.panel.rank.value = 1
        self._show_sure()

    def _contact(self, pose: AnsweredPose, predictor: Predictor) -> np.ndarray:
        return (pose.T_scene_gripper @ predictor.gripper.T_gripper_contact)[:3, 3]

    # --- showing ---------------------------------------------------------------------------

    def _show_sure(self) -> None:
        """Mark all poses that are sure enough, and show the one of the chosen rank."""
        least = self.panel.confidence.value
        for side in self._sides:
            side.sure = [one for one in side.answer.poses if one.confidence >= least]
            self._mark(side)
        self._show_rank()

    def _mark(self, side: _Side) -> None:
        """A ball at the contact point of each pose: green where it is feasible."""
        for good, color in ((True, GOOD), (False, WRONG)):
            name = f"{side.root}/{'good' if good else 'bad'}"
            balls = [
                ball_mesh(self._contact(one, side.predictor), 0.004, color)
                for one in side.sure
                if one.feasible == good
            ]
            if balls:
                self.stage.mesh(name, joined(balls))
            else:
                self.stage.remove(name)

    def _show_rank(self) -> None:
        """Show the pose of the chosen rank, and its way."""
        self._session.desk.drop("ghost")
        rank, ghost = int(self.panel.rank.value), bool(self.panel.ghost.value)
        for side in self._sides:
            side.shown = side.sure[rank - 1] if rank <= len(side.sure) else None
            self._show_pose(side, ghost)
        self.panel.told.content = "\n\n".join(_told(side, rank) for side in self._sides)
        if ghost:
            self._begun = time.monotonic()
            self._tick()

    def _show_pose(self, side: _Side, ghost: bool) -> None:
        side.hand.hide()
        side.ghost.hide()
        pose, gripper = side.shown, side.predictor.gripper
        if pose is None:
            return
        width = pose.width_before if pose.width_before is not None else pose.width_after
        color = CALM if pose.feasible else WRONG
        side.hand.show(pose.T_scene_gripper, gripper, width=width, color=color, held=side.held)
        if ghost:
            side.ghost.show(pose.T_scene_pre, gripper, width=width, color=GHOST, opacity=0.35)

    def _tick(self) -> None:
        """Move the ghosts a little, and come back."""
        share = ((time.monotonic() - self._begun) % ROUND) / ROUND
        for side in self._sides:
            if side.shown is not None:
                side.ghost.place(on_the_way(side.shown, share))
        self._session.desk.later("ghost", TICK, self._tick)


class TryPanel:
    """Fields and buttons of the room.

    Args:
        session: The studio.
    """

    def __init__(self, session: Session) -> None:
        gui = session.server.gui
        self.folder = gui.add_folder("Try")
        with self.folder:
            self.model = gui.add_dropdown("Model", (NONE,), NONE)
            self.second = gui.add_dropdown("Compare with", (NONE,), NONE)
            self.scene = SceneChoice(session, gui)
            self.find = gui.add_button("Find poses", icon=viser.Icon.SEARCH)
            self.rank = gui.add_slider("Rank", 1, 2, 1, 1)
            self.confidence = gui.add_slider("Least confidence", 0.0, 1.0, 0.01, 0.0)
            self.ghost = gui.add_checkbox("Show the way", True)
            self.told = gui.add_markdown("")

    def offer(self, labels: tuple[str, ...], chosen: str) -> None:
        """Offer models, of which one is chosen; the second stays where it can."""
        set_options(self.model, labels or (NONE,), chosen)
        options = (NONE, *labels)
        value = self.second.value if self.second.value in options else NONE
        set_options(self.second, options, value)


def on_the_way(pose: AnsweredPose, share: float) -> Pose:
    """The gripper's pose after a share of the way from the pre-pose to the pose and the retreat.

    The first two fifths lead to the pose, the last two away from it.
    """
    before, there, after = pose.T_scene_pre, pose.T_scene_gripper, pose.T_scene_retreat
    if share < 0.4:
        start, end, part = before, there, share / 0.4
    elif share < 0.6:
        return there.copy()
    else:
        start, end, part = there, after, (share - 0.6) / 0.4
    moved = there.copy()
    moved[:3, 3] = (1.0 - part) * start[:3, 3] + part * end[:3, 3]
    return moved


def _told(side: _Side, rank: int) -> str:
    """What the panel says of the pose that a side shows."""
    label, pose = plain(side.label), side.shown
    if pose is None:
        why = side.answer.reason or f"only {len(side.sure)} poses are that sure"
        return f"**{label}**: no pose of this rank: {plain(why)}."
    state = "feasible" if pose.feasible else f"not feasible: {pose.reason}"
    told = (
        f"**{label}**: pose {rank} of {len(side.sure)}, confidence {pose.confidence:.2f}, "
        f"energy {plain(f'{pose.energy:.2f}')}; {plain(state)}."
    )
    if side.answer.best is pose:
        told += " **This one would be executed.**"
    if side.answer.best is None and rank == 1:
        told += f" None would be executed: {plain(side.answer.reason)}."
    warnings = " ".join(map(plain, side.answer.warnings))
    return told + (f"\n\n{warnings}" if warnings and rank == 1 else "")

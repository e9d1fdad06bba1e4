"""Running tasks of any number of steps, on a robot that is no simulator and has its own world."""

import subprocess
import sys
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from handful.clouds import PointCloud, concatenate
from handful.demos import Action, ContactFrame, Gripper, HandBox, HandShape, Task, TaskStep
from handful.errors import HandfulError, OptionError
from handful.policy import (
    LOOKS,
    Limits,
    Look,
    Motion,
    PosePredictor,
    RankedPoses,
    Robot,
    StepFailure,
    StepRecord,
    Verdict,
    Watcher,
    run_task,
)
from policy_samples import box_surface, contact_at, level_plane

COLORS = {
    "red": (0.9, 0.1, 0.1),
    "blue": (0.1, 0.2, 0.9),
    "green": (0.1, 0.7, 0.2),
    "yellow": (0.9, 0.9, 0.1),
    "white": (1.0, 1.0, 1.0),
}
GREY = (0.5, 0.5, 0.5)
BLOCK = (0.03, 0.03, 0.04)
NEAR = 0.01
"""Metres from the right place that still count."""

TURN = (np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0)
"""The approach is along the -y axis of the gripper frame, which is at the finger tips."""
HAND = Gripper(
    ContactFrame((0.0, 0.0, 0.0), TURN),
    "x",
    0.06,
    HandShape(
        (
            HandBox((0.0, 0.06, 0.0), (0.1, 0.03, 0.03)),
            HandBox((0.035, 0.022, 0.0), (0.01, 0.046, 0.02), side=1),
            HandBox((-0.035, 0.022, 0.0), (0.01, 0.046, 0.02), side=-1),
        )
    ),
)


@dataclass
class Carrier:
    """A robot that stows what it picks; the block stowed last is in its fingers when it places.

    Blocks stand on a table, and pads lie on it. A pick succeeds if the contact point is in the
    middle of a block, a place if the bottom of the block comes to the middle of a pad.
    """

    blocks: dict[str, np.ndarray]
    pads: dict[str, np.ndarray]
    stowed: list[str] = field(default_factory=list)
    placed: dict[str, str] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    motions: list[Motion] = field(default_factory=list)
    longest: float = 1.0

    @property
    def gripper(self) -> Gripper:
        return HAND

    def observe_scene(self) -> PointCloud:
        self.events.append("observe scene")
        parts = [PointCloud(level_plane(0.5, spacing=0.005)).painted(GREY)]
        for color, (x, y) in self.blocks.items():
            parts.append(PointCloud(block_at(x, y)).painted(COLORS[color]))
        for color, (x, y) in self.pads.items():
            pad = level_plane(0.03, 0.001) + np.array([x, y, 0.0])
            parts.append(PointCloud(pad).painted(COLORS[color]))
        return concatenate(parts)

    def observe_grasp(self) -> PointCloud:
        self.events.append("observe grasp")
        held = HAND.T_gripper_contact[:3, 3] + box_surface((0.0, 0.0, 0.0), BLOCK) @ (
            HAND.T_gripper_contact[:3, :3].T
        )
        return PointCloud(held).painted(COLORS[self.stowed[-1]])

    def reach(self, step: TaskStep, T_scene_gripper: np.ndarray) -> Verdict:
        near = bool(np.linalg.norm(T_scene_gripper[:3, 3]) < self.longest)
        return Verdict(near, "" if near else "out of reach")

    def execute(self, step: TaskStep, motion: Motion) -> Verdict:
        self.events.append(f"execute {step.name}")
        self.motions.append(motion)
        T_scene_contact = motion.T_scene_gripper @ HAND.T_gripper_contact
        if T_scene_contact[2, 2] > -0.99:
            return Verdict(False, "the approach is not from above")
        x, y, z = T_scene_contact[:3, 3].tolist()
        if step.action is Action.PICK:
            return self._take(np.array([x, y]), z)
        return self._let_go(np.array([x, y]), z)

    def _take(self, spot: np.ndarray, height: float) -> Verdict:
        for color, place in self.blocks.items():
            if np.linalg.norm(spot - place) < NEAR and 0.0 < height < BLOCK[2]:
                del self.blocks[color]
                self.stowed.append(color)
                return Verdict(True, f"took {color}")
        return Verdict(False, "nothing between the fingers")

    def _let_go(self, spot: np.ndarray, height: float) -> Verdict:
        color = self.stowed.pop()
        for pad, place in self.pads.items():
            if np.linalg.norm(spot - place) < NEAR and abs(height - BLOCK[2] / 2) < NEAR:
                self.placed[color] = pad
                return Verdict(True, f"{color} is on {pad}")
        return Verdict(False, f"{color} is on no pad")


def block_at(x: float, y: float) -> np.ndarray:
    return box_surface((x, y, BLOCK[2] / 2), BLOCK)


@dataclass
class ColorPredictor:
    """Goes to the middle of a colour; with a grasp cloud, it puts what is held onto that colour.

    Half of its poses are beside the colour, with little confidence.
    """

    color: str
    asked: list[tuple[bool, int, int]] = field(default_factory=list)

    def sample(
        self, scene: PointCloud, grasp: PointCloud | None = None, n: int = 100, seed: int = 0
    ) -> RankedPoses:
        self.asked.append((grasp is not None, n, seed))
        match = np.abs(scene.require_colors() - np.array(COLORS[self.color])).max(axis=1) < 0.01
        if not match.any():
            raise HandfulError(f"no {self.color} in sight: show some.")
        low, high = scene.points[match].min(axis=0), scene.points[match].max(axis=0)
        x, y, z = ((low + high) / 2).tolist()
        if grasp is not None:
            T_contact_gripper = np.linalg.inv(HAND.T_gripper_contact)
            depth = grasp.points @ T_contact_gripper[2, :3] + T_contact_gripper[2, 3]
            z = float(high[2]) + float(depth.max())
        rng = np.random.default_rng(seed)
        offset = rng.normal(0.0, 0.001, (n, 3)) * np.array([1.0, 1.0, 0.0])
        offset[n // 2 :, 0] += 0.1
        poses = np.stack([contact_at(HAND, *(np.array([x, y, z]) + some)) for some in offset])
        confidence = np.where(np.arange(n) < n // 2, 0.9, 0.1)
        return RankedPoses(poses, 1.0 - confidence, confidence, 0.01, HAND)


def carrier(**changes: float) -> Carrier:
    return replace(
        Carrier(
            {
                "red": np.array([0.1, 0.1]),
                "blue": np.array([-0.1, 0.1]),
                "green": np.array([0.0, -0.12]),
            },
            {"yellow": np.array([0.15, -0.1]), "white": np.array([-0.15, -0.1])},
        ),
        **changes,
    )


PICK_RED = TaskStep("pick red", Action.PICK)
PICK_BLUE = TaskStep("take the blue one", Action.PICK)
PICK_GREEN = TaskStep("Grün.2", Action.PICK)
ON_YELLOW = TaskStep("onto yellow", Action.PLACE)
ON_WHITE = TaskStep("onto white", Action.PLACE)
GOES_TO = {
    PICK_RED.name: "red", PICK_BLUE.name: "blue", PICK_GREEN.name: "green",
    ON_YELLOW.name: "yellow", ON_WHITE.name: "white",
}  # fmt: skip

TASKS = {
    "one step": (PICK_RED,),
    "two steps": (PICK_RED, ON_YELLOW),
    "two picks in a row, a place after a place": (PICK_RED, PICK_BLUE, ON_YELLOW, ON_WHITE),
    "five steps": (PICK_GREEN, ON_WHITE, PICK_BLUE, PICK_RED, ON_YELLOW),
}
OUTCOMES: dict[str, dict[str, str]] = {
    "one step": {},
    "two steps": {"red": "yellow"},
    "two picks in a row, a place after a place": {"blue": "yellow", "red": "white"},
    "five steps": {"green": "white", "red": "yellow"},
}
LIMITS = Limits(table=0.0)


def predictors_for(steps: tuple[TaskStep, ...]) -> dict[str, PosePredictor]:
    return {step.name: ColorPredictor(GOES_TO[step.name]) for step in steps}


def run(
    robot: Carrier, steps: tuple[TaskStep, ...], seed: int = 0, watcher: Watcher | None = None
) -> tuple[StepRecord, ...]:
    return run_task(
        robot, Task(steps), predictors_for(steps), limits=LIMITS, samples=6, seed=seed,
        watcher=watcher,
    )  # fmt: skip


def test_the_tiny_robot_is_a_robot() -> None:
    assert isinstance(carrier(), Robot)
    assert not isinstance(ColorPredictor("red"), Robot)


@pytest.mark.parametrize("name", TASKS)
def test_tasks_of_any_number_of_steps_are_carried_out(name: str) -> None:
    robot, steps = carrier(), TASKS[name]
    records = run(robot, steps)
    assert [record.name for record in records] == [step.name for step in steps]
    assert all(record.ok and record.failure is None for record in records)
    assert robot.placed == OUTCOMES[name]
    taken = sum(step.action is Action.PICK for step in steps)
    assert len(robot.stowed) == taken - len(robot.placed)
    for record, motion in zip(records, robot.motions, strict=True):
        assert record.confidence == record.best_confidence == 0.9
        assert (record.proposed, record.skips) == (6, 0)
        np.testing.assert_array_equal(record.T_scene_gripper, motion.T_scene_gripper)


@pytest.mark.parametrize("name", TASKS)
def test_the_grasp_is_observed_for_steps_that_hold_something(name: str) -> None:
    robot, steps = carrier(), TASKS[name]
    predictors = predictors_for(steps)
    run_task(
        robot, Task(steps), predictors, limits=LIMITS, samples=6, seed=3, look_ahead=None
    )  # fmt: skip
    expected = []
    for step in steps:
        expected += ["observe scene"] + (["observe grasp"] if step.action.holding else [])
        expected += [f"execute {step.name}"]
        predictor = predictors[step.name]
        assert isinstance(predictor, ColorPredictor)
        assert predictor.asked == [(step.action.holding, 6, 3)]
    assert robot.events == expected


@pytest.mark.parametrize("wrong", range(4))
def test_a_step_that_fails_ends_the_task(wrong: int) -> None:
    """The predictor of one step goes to the bare table beside its colour.

    The limits allow to take nothing, which would be noticed before.
    """
    steps = TASKS["two picks in a row, a place after a place"]
    predictors = predictors_for(steps)
    right = predictors[steps[wrong].name]

    class Beside:
        def sample(
            self, scene: PointCloud, grasp: PointCloud | None = None, n: int = 100, seed: int = 0
        ) -> RankedPoses:
            found = right.sample(scene, grasp, n, seed)
            moved = found.T_scene_gripper.copy()
            moved[:, 1, 3] -= 0.06
            return replace(found, T_scene_gripper=moved)

    predictors[steps[wrong].name] = Beside()
    robot, watcher = carrier(), Told()
    records = run_task(
        robot, Task(steps), predictors, limits=Limits(table=0.0, takes=False), samples=6,
        watcher=watcher,
    )  # fmt: skip
    assert [record.ok for record in records] == [True] * wrong + [False]
    assert records[-1].failure is StepFailure.LOST
    assert ("is on no pad" if steps[wrong].action.holding else "nothing") in records[-1].reason
    assert records[-1].T_scene_gripper is not None
    assert robot.events[-1] == f"execute {steps[wrong].name}"
    assert watcher.told[-1] == f"after {steps[wrong].name}: False"


@dataclass
class Told(Watcher):
    """Writes down what it is told."""

    told: list[str] = field(default_factory=list)

    def looked(self, look: Look) -> None:
        super().looked(look)
        self.told.append(f"looked {look.step.name}: {look.grasp is not None}, {look.chosen}")

    def before(self, step: TaskStep, T_scene_gripper: np.ndarray) -> None:
        self.told.append(f"before {step.name}: {T_scene_gripper.shape}")

    def after(self, step: TaskStep, verdict: Verdict) -> None:
        self.told.append(f"after {step.name}: {verdict.ok}")


def test_the_watcher_is_told_in_order() -> None:
    watcher, steps = Told(), TASKS["five steps"]
    records = run(carrier(), steps, watcher=watcher)
    expected = []
    for step in steps:
        expected += [
            f"looked {step.name}: {step.action.holding}, 0",
            f"before {step.name}: (4, 4)",
            f"after {step.name}: True",
        ]
    assert watcher.told == expected
    assert [look.step for look in watcher.looks] == list(steps)
    assert [len(look.proposed) for look in watcher.looks] == [record.proposed for record in records]


def test_a_missing_predictor_is_a_sentence_before_anything_moves() -> None:
    robot, steps = carrier(), TASKS["two steps"]
    with pytest.raises(OptionError, match="the step 'onto yellow' has no predictor: train or give"):
        run_task(robot, Task(steps), predictors_for(steps[:1]))
    assert robot.events == []


def test_nothing_in_sight_is_told_with_the_predictors_own_words() -> None:
    robot = carrier()
    del robot.blocks["red"]
    watcher = Told()
    (record,) = run(robot, TASKS["two steps"], watcher=watcher)
    assert record.failure is StepFailure.NOT_PROPOSED
    assert record.reason == "no red in sight: show some."
    assert (record.proposed, record.best_confidence, record.T_scene_gripper) == (0, None, None)
    assert record.looks == LOOKS
    assert watcher.told == ["looked pick red: False, None"] * LOOKS


def test_infeasible_poses_are_counted_by_reason_and_nothing_moves() -> None:
    robot = carrier(longest=0.01)
    (record,) = run(robot, TASKS["two steps"])
    assert record.failure is StepFailure.INFEASIBLE
    assert set(record.skipped) == {"out of reach"}
    assert record.skips == record.proposed / 2, "the unsure half was tried"
    assert "none of 9 poses that are sure enough, of 18: out of reach (9)" in record.reason
    assert record.best_confidence == 0.9
    assert robot.motions == []


def test_limits_hold_for_every_step() -> None:
    """The user allows no step over the right half: red is there, blue is not."""

    def left_only(step: TaskStep, T_scene_gripper: np.ndarray) -> Verdict:
        return Verdict(bool(T_scene_gripper[0, 3] < 0.0), "right half")

    limits = Limits(allowed=left_only, table=0.0)
    steps = (PICK_BLUE, PICK_RED)
    records = run_task(carrier(), Task(steps), predictors_for(steps), limits=limits, samples=6)
    assert [record.ok for record in records] == [True, False]
    assert set(records[1].skipped) == {"right half"}


@pytest.mark.parametrize("distance", [0.03, 0.12])
def test_motions_begin_and_end_above_the_pose(distance: float) -> None:
    robot, steps = carrier(), TASKS["two steps"]
    run_task(robot, Task(steps), predictors_for(steps), samples=6, pre_distance=distance)
    for motion in robot.motions:
        for back in (motion.T_scene_pre, motion.T_scene_retreat):
            lift = back[:3, 3] - motion.T_scene_gripper[:3, 3]
            np.testing.assert_allclose(lift, [0.0, 0.0, distance], atol=1e-12)


def without_time(records: tuple[StepRecord, ...]) -> list[StepRecord]:
    return [
        replace(
            record,
            seconds=0.0,
            looked_ahead=record.looked_ahead and replace(record.looked_ahead, seconds=0.0),
        )
        for record in records
    ]


def test_same_seed_same_run() -> None:
    steps = TASKS["five steps"]
    one, same, other = (without_time(run(carrier(), steps, seed)) for seed in (5, 5, 6))
    assert one == same
    assert [record.T_scene_gripper for record in one] != [
        record.T_scene_gripper for record in other
    ]


@pytest.mark.parametrize(("apart", "free"), [(0.04, False), (0.09, True)])
def test_the_described_hand_keeps_off_what_stands_beside_the_target(
    apart: float, free: bool
) -> None:
    """A second block stands where a finger would go, or farther away."""
    robot = carrier()
    robot.blocks["blue"] = robot.blocks["red"] + np.array([apart, 0.0])
    (record,) = run(robot, TASKS["one step"])
    assert record.ok is free
    assert ("the hand would go through the scene" in record.skipped) is not free


def test_the_policy_needs_no_simulator() -> None:
    code = (
        "import sys, handful.policy; "
        "print([name for name in sys.modules if name.startswith(('handful.sim', 'mujoco'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

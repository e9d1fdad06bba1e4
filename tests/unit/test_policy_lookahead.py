"""Looking ahead and saying no: which pose is executed, when, and when none is."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from clock import Clock
from handful.clouds import PointCloud, concatenate
from handful.demos import Action, Gripper, Task, TaskStep, gripper_named
from handful.errors import HandfulError, OptionError
from handful.policy import (
    LEAST_CONFIDENCE,
    Crossings,
    Limits,
    LookAhead,
    LookedAhead,
    LookingRobot,
    Motion,
    Outlook,
    PosePredictor,
    Predictor,
    Prospect,
    RankedPoses,
    Robot,
    StepFailure,
    StepRecord,
    Verdict,
    Watcher,
    _lookahead,
    run_task,
)
from policy_samples import box_surface, contact_at, level_plane

HAND = gripper_named("simulated")
BOX = (0.03, 0.03, 0.06)
TAKE, PUT = TaskStep("take", Action.PICK), TaskStep("put", Action.PLACE)
TAKE_2, PUT_2 = TaskStep("take two", Action.PICK), TaskStep("put two", Action.PLACE)
PLACES = (-0.2, -0.1, 0.0, 0.1, 0.2)
"""Where boxes stand, x in metres; y is zero."""


@dataclass
class Desk:
    """Boxes on a table. What may be let go, and where, is a function of how it is held."""

    blocked: Callable[[np.ndarray], bool] = lambda T_scene_gripper: False
    boxes: list[float] = field(default_factory=lambda: list(PLACES))
    done: list[tuple[str, float]] = field(default_factory=list)
    looks: int = 0

    @property
    def gripper(self) -> Gripper:
        return HAND

    def observe_scene(self) -> PointCloud:
        self.looks += 1
        parts = [PointCloud(level_plane(0.6, spacing=0.005))]
        parts += [PointCloud(box_surface((x, 0.0, 0.03), BOX, 0.004)) for x in self.boxes]
        return concatenate(parts)

    def observe_grasp(self) -> PointCloud:
        return PointCloud(box_surface((0.0, 0.0, 0.16), BOX, 0.004))

    def reach(self, step: TaskStep, T_scene_gripper: np.ndarray) -> Verdict:
        return Verdict(not (step.action.holding and self.blocked(T_scene_gripper)), "blocked")

    def execute(self, step: TaskStep, motion: Motion) -> Verdict:
        x = float((motion.T_scene_gripper @ HAND.T_gripper_contact)[0, 3])
        self.done.append((step.name, round(x, 3)))
        if step.action is Action.PICK:
            self.boxes = [place for place in self.boxes if abs(place - x) > 0.01]
        return Verdict(True)


def at(*x: float, height: float = 0.045) -> np.ndarray:
    return np.stack([contact_at(HAND, place, 0.0, height) for place in x])


def ranked(T_scene_gripper: np.ndarray, confidence: float | np.ndarray = 0.9) -> RankedPoses:
    sure = np.broadcast_to(np.asarray(confidence, dtype=float), len(T_scene_gripper)).copy()
    return RankedPoses(T_scene_gripper, 1.0 - sure, sure, 0.0, HAND)


@dataclass
class Fixed:
    """Proposes the same poses, whatever it sees."""

    answer: RankedPoses

    def sample(
        self, scene: PointCloud, grasp: PointCloud | None = None, n: int = 100, seed: int = 0
    ) -> RankedPoses:
        return self.answer


@dataclass
class Carried:
    """Answers by a function of the scene and of what is held; keeps what it was asked with."""

    answers: Callable[[PointCloud, PointCloud], RankedPoses]
    asked: list[tuple[PointCloud, PointCloud]] = field(default_factory=list)

    def sample(
        self, scene: PointCloud, grasp: PointCloud | None = None, n: int = 100, seed: int = 0
    ) -> RankedPoses:
        assert grasp is not None
        self.asked.append((scene, grasp))
        return self.answers(scene, grasp)


def boxes_in(scene: PointCloud) -> list[float]:
    """Where boxes stand in a cloud."""
    high = scene.points[scene.points[:, 2] > 0.02]
    return [x for x in PLACES if (np.abs(high[:, 0] - x) < 0.02).any()]


def only_after(*taken: float) -> Carried:
    """Sure poses of the next step only if one of these boxes is missing in the scene."""

    def answers(scene: PointCloud, grasp: PointCloud) -> RankedPoses:
        missing = set(PLACES) - set(boxes_in(scene))
        return ranked(at(0.25, height=0.3), 0.9 if missing & set(taken) else 0.1)

    return Carried(answers)


def run(
    robot: Desk,
    predictors: dict[str, PosePredictor],
    steps: tuple[TaskStep, ...] = (TAKE, PUT),
    watcher: Watcher | None = None,
    look_ahead: LookAhead | None = LookAhead(budget=np.inf),  # noqa: B008
    **options: float,
) -> tuple[StepRecord, ...]:
    limits = Limits(table=0.0, hand=False, takes=False)
    return run_task(
        robot, Task(steps), predictors, watcher=watcher, look_ahead=look_ahead, limits=limits,
        **options,
    )  # type: ignore[arg-type]  # fmt: skip


def first_taken(robot: Desk) -> float:
    return robot.done[0][1]


# --- looking ahead -----------------------------------------------------------------------------


def test_the_best_pose_stands_and_costs_one_question_if_the_next_step_follows() -> None:
    robot, place, watcher = Desk(), only_after(*PLACES), Watcher()
    records = run(robot, {"take": Fixed(ranked(at(*PLACES))), "put": place}, watcher=watcher)
    assert first_taken(robot) == PLACES[0]
    assert len(place.asked) == 2, "one look ahead, and the step itself"
    ahead = records[0].looked_ahead
    assert ahead is not None
    assert replace(ahead, seconds=0.0) == LookedAhead(tried=1, passed=1)
    assert watcher.looks[0].looked_ahead == ahead
    assert records[1].looked_ahead is watcher.looks[1].looked_ahead is None


def test_candidates_from_which_nothing_follows_are_passed_over_in_the_order_of_the_model() -> None:
    robot, place = Desk(), only_after(0.0, 0.2)
    records = run(robot, {"take": Fixed(ranked(at(*PLACES))), "put": place})
    assert first_taken(robot) == 0.0
    ahead = records[0].looked_ahead
    assert ahead is not None
    assert replace(ahead, seconds=0.0) == LookedAhead(tried=3, passed=1, changed=True)
    assert ahead.seconds > 0.0
    assert records[0].confidence == 0.9


def test_the_next_step_is_asked_with_what_would_be_held_in_the_scene_without_it() -> None:
    place = only_after(*PLACES)
    run(Desk(), {"take": Fixed(ranked(at(0.1))), "put": place})
    scene, held = place.asked[0]
    assert boxes_in(scene) == [-0.2, -0.1, 0.0, 0.2]
    contact = HAND.T_gripper_contact[:3, 3]
    middle = (held.points.max(axis=0) + held.points.min(axis=0)) / 2
    np.testing.assert_allclose(middle - contact, [0.0, 0.0, 0.0135], atol=0.004)
    np.testing.assert_allclose(held.extent, BOX, atol=0.008)


def test_a_pose_of_the_next_step_must_be_in_reach() -> None:
    """The predictor is sure of all, and lets go at the height of the hand that took."""

    def beside(scene: PointCloud, grasp: PointCloud) -> RankedPoses:
        return ranked(at(*(set(PLACES) - set(boxes_in(scene))), height=0.3))

    robot = Desk(blocked=lambda T: T[0, 3] < 0.05)
    run(robot, {"take": Fixed(ranked(at(*PLACES))), "put": Carried(beside)})
    assert robot.done == [("take", 0.1), ("put", 0.1)]


def test_the_order_stands_if_no_candidate_passes() -> None:
    robot = Desk()
    (record, _) = run(robot, {"take": Fixed(ranked(at(*PLACES))), "put": only_after()})
    assert first_taken(robot) == PLACES[0]
    assert record.looked_ahead is not None
    assert not record.looked_ahead.changed
    assert (record.looked_ahead.tried, record.looked_ahead.passed) == (5, 0)


def test_the_order_stands_if_nothing_can_be_told_of_the_best() -> None:
    """It closes in the air; the next one would pass."""
    robot, place = Desk(), only_after(*PLACES)
    poses = np.concatenate([at(0.05, height=0.3), at(0.1)])
    (record, _) = run(robot, {"take": Fixed(ranked(poses)), "put": place})
    assert first_taken(robot) == 0.05
    assert record.looked_ahead is not None
    assert (record.looked_ahead.tried, record.looked_ahead.unknown) == (1, 1)
    assert all(len(boxes_in(scene)) == len(PLACES) for scene, _ in place.asked), "it was imagined"


def test_what_cannot_be_told_does_not_take_the_place_of_the_best() -> None:
    poses = np.concatenate([at(-0.2), at(0.05, height=0.3), at(0.1)])
    robot = Desk()
    run(robot, {"take": Fixed(ranked(poses)), "put": only_after(0.1)})
    assert first_taken(robot) == 0.1
    robot = Desk()
    run(robot, {"take": Fixed(ranked(poses)), "put": only_after()})
    assert first_taken(robot) == -0.2


def test_a_predictor_that_cannot_be_asked_leaves_the_order_alone() -> None:
    def refuses(scene: PointCloud, grasp: PointCloud) -> RankedPoses:
        raise HandfulError("ask me when something is held.")

    place = Carried(refuses)
    (record, last) = run(robot := Desk(), {"take": Fixed(ranked(at(*PLACES))), "put": place})
    assert first_taken(robot) == PLACES[0]
    assert record.looked_ahead is not None
    assert (record.looked_ahead.tried, record.looked_ahead.unknown) == (1, 1)
    assert last.failure is StepFailure.NOT_PROPOSED


def test_an_error_of_the_robot_is_not_taken_for_the_predictors() -> None:
    def broken(T_scene_gripper: np.ndarray) -> bool:
        raise HandfulError("the arm does not answer")

    with pytest.raises(HandfulError, match="the arm does not answer"):
        run(Desk(blocked=broken), {"take": Fixed(ranked(at(0.1))), "put": only_after(0.1)})


def test_poses_that_are_alike_are_imagined_once() -> None:
    poses = at(-0.2, -0.199, -0.201, -0.2, 0.1)
    place = only_after(0.1)
    (record, _) = run(robot := Desk(), {"take": Fixed(ranked(poses)), "put": place})
    assert first_taken(robot) == 0.1
    assert record.looked_ahead is not None
    assert record.looked_ahead.tried == 2


class Equivariant(Predictor):
    """Stands for a trained model: lifts what it was first asked about by 0.3 m."""

    def __init__(self, T_scene_first: np.ndarray) -> None:
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "first", T_scene_first)
        object.__setattr__(self, "crossings", Crossings())

    def look(self, *clouds: object) -> "Equivariant":  # type: ignore[override]
        self.asked.append(clouds)  # type: ignore[attr-defined]
        return self

    def sample(self, *options: object) -> RankedPoses:  # type: ignore[override]
        lifted = self.first.copy()  # type: ignore[attr-defined]
        lifted[2, 3] += 0.3
        return ranked(lifted[None])


def test_a_model_is_asked_once_for_all_grasps_of_a_thing() -> None:
    """The box goes to the same place however it is held: only the lower grasp is in reach there."""
    high, low = at(0.1, height=0.045)[0], at(0.1, height=0.03)[0]
    model = Equivariant(high)
    robot = Desk(blocked=lambda T: bool((T @ HAND.T_gripper_contact)[2, 3] > 0.34))
    scene, limits = robot.observe_scene(), Limits(table=0.0, hand=False)
    outlook = Outlook(robot, PUT, model, scene, limits, LookAhead(np.inf), seed=0)
    assert [outlook(high), outlook(low)] == [Prospect.INFEASIBLE, Prospect.FEASIBLE]
    ((seen, *_),) = model.asked  # type: ignore[attr-defined]
    assert boxes_in(seen) == [-0.2, -0.1, 0.0, 0.2]
    outlook(at(0.0)[0])
    assert len(model.asked) == 2, "that was another box"  # type: ignore[attr-defined]


def test_no_pose_that_is_not_good_is_preferred() -> None:
    """The fourth would pass, and is not sure enough."""
    sure = np.array([0.9, 0.9, 0.9, 0.3, 0.3])
    run(robot := Desk(), {"take": Fixed(ranked(at(*PLACES), sure)), "put": only_after(0.1)})
    assert first_taken(robot) == PLACES[0]


@pytest.mark.parametrize(("budget", "asked"), [(0.0, 1), (1.0, 3), (1.3, 4), (np.inf, 5)])
def test_after_the_budget_no_more_candidates_are_looked_at(
    budget: float, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question takes 0.4 seconds, by the clock of the test."""
    clock = Clock()
    clock.install(monkeypatch, _lookahead)
    place = only_after(0.2)
    answers = place.answers

    def slow(scene: PointCloud, grasp: PointCloud) -> RankedPoses:
        clock.now += 0.4
        return answers(scene, grasp)

    place.answers = slow
    robot = Desk()
    (record, _) = run(
        robot, {"take": Fixed(ranked(at(*PLACES))), "put": place}, look_ahead=LookAhead(budget)
    )
    assert record.looked_ahead is not None
    assert record.looked_ahead.tried == asked
    assert record.looked_ahead.seconds == pytest.approx(0.4 * asked)
    assert first_taken(robot) == (0.2 if asked == 5 else PLACES[0])


def test_no_more_candidates_are_looked_at_than_allowed() -> None:
    config = LookAhead(np.inf, candidates=2)
    robot = Desk()
    (record, _) = run(
        robot, {"take": Fixed(ranked(at(*PLACES))), "put": only_after(0.0)}, look_ahead=config
    )
    assert record.looked_ahead is not None
    assert (record.looked_ahead.tried, first_taken(robot)) == (2, PLACES[0])


def test_nobody_looks_ahead_unasked() -> None:
    robot = Desk()
    records = run(
        robot, {"take": Fixed(ranked(at(*PLACES))), "put": only_after(0.2)}, look_ahead=None
    )
    assert first_taken(robot) == PLACES[0]
    assert records[0].looked_ahead is None


def test_a_task_of_four_steps_looks_ahead_where_something_is_taken() -> None:
    steps = (TAKE, TAKE_2, PUT, PUT_2)
    predictors: dict[str, PosePredictor] = {
        "take": Fixed(ranked(at(*PLACES))),
        "take two": Fixed(ranked(at(*PLACES[1:]))),
        "put": only_after(0.1),
        "put two": (last := only_after(*PLACES)),
    }
    records = run(robot := Desk(), predictors, steps)
    assert [name for name, _ in robot.done] == [step.name for step in steps]
    assert robot.done[:2] == [("take", PLACES[0]), ("take two", 0.1)]
    assert [record.looked_ahead is not None for record in records] == [False, True, False, False]
    assert len(last.asked) == 1, "a place after a place has nothing to look ahead to"


@pytest.mark.parametrize(("least", "taken"), [(0.0, -0.2), (0.3, 0.0), (0.6, 0.1)])
def test_what_follows_needs_the_confidence_with_which_it_would_be_executed(
    least: float, taken: float
) -> None:
    sure = {-0.2: 0.1, -0.1: 0.2, 0.0: 0.4, 0.1: 0.7}

    def answers(scene: PointCloud, grasp: PointCloud) -> RankedPoses:
        (missing,) = set(PLACES) - set(boxes_in(scene))
        return ranked(at(0.25, height=0.3), sure[missing])

    robot = Desk()
    predictors: dict[str, PosePredictor] = {
        "take": Fixed(ranked(at(*sure))), "put": Carried(answers)
    }  # fmt: skip
    run(robot, predictors, least_confidence=least)
    assert first_taken(robot) == taken


def test_bad_options_are_sentences() -> None:
    for wrong in ({"budget": -1.0}, {"budget": float("nan")}, {"candidates": 0}):
        with pytest.raises(OptionError, match="need seconds of 0 or more"):
            LookAhead(**wrong)  # type: ignore[arg-type]
    predictors: dict[str, PosePredictor] = {"take": Fixed(ranked(at(0.1)))}
    for value in (-0.1, 1.1, float("nan")):
        with pytest.raises(OptionError, match=r"least confidence is .*: need 0"):
            run(Desk(), predictors, (TAKE,), least_confidence=value)
    with pytest.raises(OptionError, match="looks is 0: need 1 to 1000"):
        run(Desk(), predictors, (TAKE,), looks=0)


# --- saying no ---------------------------------------------------------------------------------


def test_nothing_is_executed_below_the_least_confidence() -> None:
    robot, watcher = Desk(), Watcher()
    predictor = Fixed(ranked(at(*PLACES), np.array([0.12, 0.1, 0.08, 0.05, 0.01])))
    (record,) = run(robot, {"take": predictor}, (TAKE,), watcher, looks=3)
    assert robot.done == []
    assert record.failure is StepFailure.UNSURE
    assert record.reason == f"the best confidence is 0.12: need at least {LEAST_CONFIDENCE:.2f}"
    assert (record.best_confidence, record.confidence, record.T_scene_gripper) == (0.12, None, None)
    assert record.looks == robot.looks == len(watcher.looks) == 3
    assert record.proposed == sum(len(look.proposed) for look in watcher.looks)
    (record,) = run(robot, {"take": predictor}, (TAKE,), least_confidence=0.0)
    assert (record.ok, record.confidence, record.looks) == (True, 0.12, 1)


@dataclass
class Late:
    """Not sure of the first look; its seeds are kept."""

    sure_from: int
    seeds: list[int] = field(default_factory=list)

    def sample(
        self, scene: PointCloud, grasp: PointCloud | None = None, n: int = 100, seed: int = 0
    ) -> RankedPoses:
        if seed not in self.seeds:
            self.seeds.append(seed)
        return ranked(at(0.1), 0.9 if len(self.seeds) >= self.sure_from else 0.1)


@pytest.mark.parametrize(("sure_from", "ok"), [(1, True), (2, True), (3, False)])
def test_a_second_look_may_succeed_and_a_third_is_not_taken(sure_from: int, ok: bool) -> None:
    robot, predictor = Desk(), Late(sure_from)
    (record,) = run(robot, {"take": predictor}, (TAKE,))
    assert record.ok is ok
    assert record.looks == robot.looks == min(sure_from, 2)
    assert len(predictor.seeds) == min(sure_from, 2), "the same random numbers again"
    assert record.best_confidence == (0.9 if ok else 0.1)


@dataclass
class Turning(Desk):
    """Can move its camera; keeps when it did."""

    moved: list[tuple[str, int]] = field(default_factory=list)

    def look_elsewhere(self, step: TaskStep) -> None:
        self.moved.append((step.name, self.looks))


def test_a_robot_that_can_looks_from_elsewhere_first() -> None:
    assert isinstance(Turning(), LookingRobot)
    assert isinstance(Desk(), Robot)
    assert not isinstance(Desk(), LookingRobot)
    robot = Turning()
    (record,) = run(robot, {"take": Late(3)}, (TAKE,), looks=3)
    assert record.ok
    assert robot.moved == [("take", 1), ("take", 2)]
    robot = Turning()
    run(robot, {"take": Late(1)}, (TAKE,))
    assert robot.moved == [], "it was sure at once"


def test_sure_poses_that_are_infeasible_are_told_as_such() -> None:
    poses = np.concatenate([at(0.1), at(0.2, height=0.3)])
    robot = Desk(blocked=lambda T: True)
    robot.reach = lambda step, T: Verdict(False, "blocked")  # type: ignore[method-assign]
    (record,) = run(robot, {"take": Fixed(ranked(poses, np.array([0.9, 0.1])))}, (TAKE,))
    assert record.failure is StepFailure.INFEASIBLE
    assert "that are sure enough" in record.reason
    assert set(record.skipped) == {"blocked"}

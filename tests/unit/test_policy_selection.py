"""Pose selection: the best feasible pose, the second and third try, reasons, other grippers."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from handful.clouds import PointCloud
from handful.demos import ContactFrame, Gripper, gripper_named
from handful.errors import HandfulError, OptionError
from handful.policy import (
    LEAST_CONFIDENCE,
    PosePredictor,
    PoseSelection,
    RankedPoses,
    RatingPredictor,
    Verdict,
)
from handful.policy._perturb import FARTHEST
from handful.policy._selection import ATTEMPTS, FIRST, PERTURBATIONS, PERTURBED
from policy_samples import contact_at, level_plane

HAND = gripper_named("simulated")
SCENE = PointCloud(level_plane(0.05))


def poses_at(*x: float) -> np.ndarray:
    return np.stack([contact_at(HAND, place, 0.0, 0.1) for place in x])


def ranked(
    T_scene_gripper: np.ndarray, confidence: list[float] | np.ndarray, gripper: Gripper = HAND
) -> RankedPoses:
    confidence = np.asarray(confidence, dtype=np.float64)
    return RankedPoses(T_scene_gripper, 1.0 - confidence, confidence, 0.0, gripper)


@dataclass
class Sampler:
    """Answers the n-th seed with the best of its n-th answer, or raises it."""

    answers: list[RankedPoses | Exception]
    seeds: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def sample(
        self, scene: PointCloud, grasp: PointCloud | None = None, n: int = 100, seed: int = 0
    ) -> RankedPoses:
        self.seeds.append(seed)
        self.counts.append(n)
        answer = self.answers[min(len(set(self.seeds)), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return RankedPoses(
            answer.T_scene_gripper[:n], answer.energy[:n], answer.confidence[:n], 0.0,
            answer.gripper,
        )  # fmt: skip


@dataclass
class Rater(Sampler):
    """Rates every pose by a function of the x coordinate of its contact point."""

    confidence: Callable[[np.ndarray], np.ndarray] = lambda x: np.full(len(x), 0.9)
    rated: list[np.ndarray] = field(default_factory=list)

    def rate(
        self, T_scene_gripper: np.ndarray, scene: PointCloud, grasp: PointCloud | None = None
    ) -> RankedPoses:
        self.rated.append(T_scene_gripper)
        sure = self.confidence(contact_x(T_scene_gripper))
        order = np.argsort(-sure, kind="stable")
        return ranked(T_scene_gripper[order], sure[order])


def contact_x(T_scene_gripper: np.ndarray) -> np.ndarray:
    return (T_scene_gripper @ HAND.T_gripper_contact)[..., 0, 3]


def beyond(limit: float) -> Callable[[np.ndarray], Verdict]:
    """Only contact points with x above a limit are feasible."""
    return lambda pose: Verdict(bool(contact_x(pose) > limit), "too far left")


def select(
    predictor: PosePredictor,
    feasible: Callable[[np.ndarray], Verdict],
    seed: int = 7,
    least: float = 0.0,
) -> PoseSelection:
    """Whatever is best; with a least confidence, only what is as sure."""
    return PoseSelection(
        predictor, HAND, SCENE, None, feasible, samples=50, seed=seed, least_confidence=least
    )


def test_predictors_are_told_apart() -> None:
    assert isinstance(Rater([]), RatingPredictor)
    assert isinstance(Sampler([]), PosePredictor)
    assert not isinstance(Sampler([]), RatingPredictor)


def test_best_feasible_pose_is_chosen_and_reasons_are_counted() -> None:
    predictor = Sampler([ranked(poses_at(0.0, 0.1, 0.2, 0.3), [0.9, 0.8, 0.7, 0.6])])
    selection = select(predictor, beyond(0.15))
    assert selection.chosen == 2
    assert selection.T_scene_gripper is not None
    np.testing.assert_array_equal(selection.T_scene_gripper, poses_at(0.2)[0])
    assert selection.skipped == {"too far left": 2}
    assert (predictor.seeds, predictor.counts) == ([7], [FIRST])
    assert select(predictor, beyond(-1.0)).chosen == 0


@pytest.mark.parametrize(("energy", "beside"), [(2.0, False), (9.0, True)])
def test_poses_of_much_higher_energy_come_after_poses_beside_the_best(
    energy: float, beside: bool
) -> None:
    """Both are good by their confidence, and the best one is out of reach."""
    answer = RankedPoses(
        poses_at(0.0, 0.1), np.array([1.0, energy]), np.array([0.85, 0.6]), 0.0, HAND
    )
    selection = select(Rater([answer]), beyond(0.001), least=0.2)
    assert selection.T_scene_gripper is not None
    assert (contact_x(selection.T_scene_gripper) <= FARTHEST) == beside
    assert contact_x(selection.T_scene_gripper) > 0.001


def test_poses_of_much_higher_energy_are_tried_last() -> None:
    answer = RankedPoses(poses_at(0.0, 0.1), np.array([1.0, 9.0]), np.array([0.85, 0.6]), 0.0, HAND)
    assert select(Sampler([answer]), beyond(0.05), least=0.2).chosen is not None
    assert select(Sampler([answer]), beyond(0.05), least=0.7).chosen is None


def test_different_reasons_are_counted_apart_and_the_most_frequent_are_told() -> None:
    def feasible(pose: np.ndarray) -> Verdict:
        x = float(contact_x(pose))
        return Verdict(False, "left" if x < 0.15 else "right" if x < 0.25 else "")

    predictor = Sampler([ranked(poses_at(0.0, 0.1, 0.2, 0.3), [0.9] * 4)])
    selection = select(predictor, feasible)
    times = ATTEMPTS
    assert selection.skipped == {"left": 2 * times, "right": times, "no reason given": times}
    assert selection.chosen is None
    assert selection.T_scene_gripper is None
    assert selection.why_none == f"none of {4 * times} poses: left ({2 * times}), right ({times})"


def test_other_seeds_are_asked_when_no_good_pose_is_feasible() -> None:
    predictor = Sampler([ranked(poses_at(x), [0.9]) for x in (0.0, 0.1, 0.2, 0.3)])
    selection = select(predictor, beyond(0.15))
    assert selection.chosen == 2
    assert len(set(predictor.seeds)) == ATTEMPTS
    assert predictor.counts == [FIRST] + [50] * ATTEMPTS
    again = Sampler(predictor.answers)
    assert select(again, beyond(0.15)).chosen == 2
    assert again.seeds == predictor.seeds
    other = Sampler(predictor.answers)
    select(other, beyond(0.15), seed=8)
    assert set(other.seeds).isdisjoint(predictor.seeds)


def test_a_predictor_is_not_asked_for_ever() -> None:
    predictor = Sampler([ranked(poses_at(0.0), [0.9])])
    assert select(predictor, beyond(1.0)).chosen is None
    assert len(predictor.seeds) == 1 + ATTEMPTS


def test_few_poses_are_asked_for_first_and_all_only_if_none_of_them_is_feasible() -> None:
    x = np.linspace(0.0, 0.4, 40)
    answer = ranked(poses_at(*x), np.linspace(0.9, 0.8, 40))
    for best, counts in ((0, [FIRST]), (FIRST - 1, [FIRST]), (FIRST, [FIRST, 50])):
        predictor = Sampler([answer])
        selection = select(predictor, beyond(x[best] - 1e-6))
        assert selection.chosen == best
        assert selection.T_scene_gripper is not None
        np.testing.assert_array_equal(selection.T_scene_gripper, poses_at(x[best])[0])
        assert (predictor.counts, set(predictor.seeds)) == (counts, {7})
        assert len(selection.proposed) == (FIRST if counts == [FIRST] else 40)
        assert sum(selection.skipped.values()) == best, "a pose was counted twice"


@pytest.mark.parametrize("samples", [1, FIRST, FIRST + 1])
def test_no_more_poses_are_asked_for_than_allowed(samples: int) -> None:
    predictor = Sampler([ranked(poses_at(0.0), [0.9])])
    PoseSelection(predictor, HAND, SCENE, None, beyond(1.0), samples, seed=0)
    first = [FIRST] if samples > FIRST else []
    assert predictor.counts == first + [samples] * ATTEMPTS


def test_a_pose_that_is_not_good_is_not_chosen_before_all_good_ones_were_tried() -> None:
    """It is among the first, and feasible; a good pose of another seed is chosen all the same."""
    first = ranked(poses_at(0.0, 0.4), [0.9, 0.1])
    predictor = Sampler([first, ranked(poses_at(0.5), [0.9])])
    selection = select(predictor, beyond(0.3))
    assert selection.T_scene_gripper is not None
    np.testing.assert_array_equal(selection.T_scene_gripper, poses_at(0.5)[0])
    assert predictor.counts == [FIRST, 50, 50]


def test_second_time_poses_beside_the_good_ones_are_rated() -> None:
    """The pose itself is 1 cm too far left: one beside it is chosen, the best that is feasible."""
    good = np.linspace(0.0, 0.0005, PERTURBED + 4)
    predictor = Rater(
        [ranked(poses_at(*good), [0.9] * len(good))], confidence=lambda x: 0.9 - 5.0 * np.abs(x)
    )
    selection = select(predictor, beyond(0.01))
    assert len(set(predictor.seeds)) == len(predictor.rated) == 1
    assert len(predictor.rated[0]) == PERTURBATIONS
    assert selection.T_scene_gripper is not None
    x = contact_x(predictor.rated[0])
    assert np.abs(x).max() <= FARTHEST + 0.0005
    best = x[x > 0.01].min()
    assert contact_x(selection.T_scene_gripper) == pytest.approx(best)
    assert selection.skipped["too far left"] == len(good) + int((np.abs(x) < best).sum())


def test_perturbed_poses_follow_the_seed() -> None:
    one, same, other = (Rater([ranked(poses_at(0.0), [0.9])]) for _ in range(3))
    for predictor, seed in ((one, 1), (same, 1), (other, 2)):
        select(predictor, beyond(0.01), seed)
    np.testing.assert_array_equal(one.rated[0], same.rated[0])
    assert np.abs(one.rated[0] - other.rated[0]).max() > 1e-4


@pytest.mark.parametrize("rating", [0.9, 0.0], ids=["good and infeasible", "not good"])
def test_third_time_it_is_asked_again_whatever_the_ratings_were(rating: float) -> None:
    predictor = Rater(
        [ranked(poses_at(0.0), [0.9]), ranked(poses_at(0.5), [0.9])],
        confidence=lambda x: np.full(len(x), rating),
    )
    selection = select(predictor, beyond(0.3))
    assert selection.chosen == 1 + PERTURBATIONS
    assert len(predictor.rated) == 1
    assert len(set(predictor.seeds)) == 2


def test_poses_that_are_not_good_come_last_and_by_energy() -> None:
    """Good ones are asked for three times before a pose of little confidence is tried."""
    first = ranked(poses_at(0.0, 0.4, 0.5), [0.9, 0.2, 0.3])
    predictor = Sampler([first, ranked(poses_at(0.1), [0.8])])
    selection = select(predictor, beyond(0.35))
    assert len(set(predictor.seeds)) == ATTEMPTS
    assert selection.chosen == 2  # 0.3 is not good, and better than 0.2
    assert selection.skipped == {"too far left": ATTEMPTS}
    good_enough = Sampler([ranked(poses_at(0.0, 0.4, 0.5), [0.9, 0.48, 0.5]), predictor.answers[1]])
    assert select(good_enough, beyond(0.35)).chosen == 1
    assert len(good_enough.seeds) == 1


def test_poses_beside_the_surest_come_before_others_that_are_much_less_sure() -> None:
    """The best is out of reach; 0.6 is sure enough in itself, but not next to 0.97."""
    beside = Rater(
        [ranked(poses_at(0.34, 0.9), [0.97, 0.6])], confidence=lambda x: np.full(len(x), 0.95)
    )
    selection = select(beside, beyond(0.345))
    assert selection.chosen is not None
    assert selection.chosen >= 2  # one of the perturbed
    alike = Rater(
        [ranked(poses_at(0.34, 0.9), [0.8, 0.6])], confidence=lambda x: np.full(len(x), 0.79)
    )
    assert select(alike, beyond(0.345)).chosen == 1


def test_good_is_relative_when_the_predictor_is_not_sure() -> None:
    predictor = Sampler([ranked(poses_at(0.0, 0.4), [0.2, 0.11])])
    assert select(predictor, beyond(0.3)).chosen == 1
    assert len(predictor.seeds) == 1
    predictor = Sampler([ranked(poses_at(0.0, 0.4), [0.2, 0.09])])
    assert select(predictor, beyond(0.3)).chosen == 1
    assert len(set(predictor.seeds)) == ATTEMPTS


def test_poses_that_are_not_sure_enough_are_never_chosen() -> None:
    answer = ranked(poses_at(0.0, 0.2, 0.4), [0.9, 0.6, 0.49])
    assert select(Sampler([answer]), beyond(0.1), least=0.5).chosen == 1
    selection = select(Sampler([answer]), beyond(0.3), least=0.5)
    assert selection.chosen is None
    tried = 2 * ATTEMPTS
    assert selection.skipped == {"too far left": tried}
    words = f"none of {tried} poses that are sure enough, of {3 * ATTEMPTS}: too far left"
    assert words in selection.why_none
    assert select(Sampler([answer]), beyond(0.3), least=0.49).chosen is not None


def test_the_default_refuses_what_is_below_the_least_confidence() -> None:
    for sure, fine in ((LEAST_CONFIDENCE, True), (LEAST_CONFIDENCE - 0.01, False)):
        answer = ranked(poses_at(0.0), [sure])
        selection = PoseSelection(Sampler([answer]), HAND, SCENE, None, beyond(-1.0), 50, seed=0)
        assert (selection.chosen is not None) is fine


def test_perturbed_poses_must_be_sure_enough_too() -> None:
    """Beside the infeasible pose, only those to its right are feasible, and less sure."""
    predictor = Rater(
        [ranked(poses_at(0.0), [0.9])], confidence=lambda x: np.where(x > 0.005, 0.4, 0.9)
    )
    assert select(predictor, beyond(0.005), least=0.5).chosen is None
    assert len(predictor.rated) == 1
    assert select(predictor, beyond(0.005), least=0.3).chosen is not None


def test_nothing_proposed_is_told() -> None:
    selection = select(Sampler([RankedPoses.nothing(HAND)]), beyond(0.0))
    assert selection.chosen is None
    assert selection.why_none == "the predictor proposed nothing"


def test_an_error_of_the_predictor_becomes_the_reason() -> None:
    selection = select(Sampler([HandfulError("the cloud is empty: move the camera.")]), beyond(0.0))
    assert selection.chosen is None
    assert len(selection.proposed) == 0
    assert selection.why_none == "the cloud is empty: move the camera."
    with pytest.raises(ZeroDivisionError):
        select(Sampler([ZeroDivisionError()]), beyond(0.0))


def test_an_error_the_second_time_leaves_the_poses_of_the_first() -> None:
    first = ranked(poses_at(0.0, 0.4), [0.9, 0.1])
    predictor = Sampler([first, HandfulError("no more")])
    assert select(predictor, beyond(0.3)).chosen == 1
    predictor = Sampler([first, HandfulError("no more")])
    assert select(predictor, beyond(1.0)).why_none == "none of 2 poses: too far left (2)"


def test_an_error_of_the_robot_is_not_taken_for_the_predictors() -> None:
    def feasible(pose: np.ndarray) -> Verdict:
        raise HandfulError("the arm does not answer")

    with pytest.raises(HandfulError, match="the arm does not answer"):
        select(Sampler([ranked(poses_at(0.0), [0.9])]), feasible)


def test_poses_of_another_gripper_are_refused() -> None:
    """They would be carried out as if they were of the robot's gripper, 15 cm away."""
    tool = Gripper(ContactFrame((0.0, 0.0, 0.0)), "x", 0.08)
    turned = Gripper(HAND.contact, "y", 0.08)
    for other, words in ((tool, "145 mm and 0 degrees"), (turned, "0 mm and 90 degrees")):
        with pytest.raises(OptionError, match=f"{words} .* predictor.for_gripper"):
            select(Sampler([ranked(poses_at(0.0), [0.9], other)]), beyond(-1.0))
    close = Gripper(ContactFrame((0.0, 0.0, 0.15)), "x", 0.085)
    assert select(Sampler([ranked(poses_at(0.0), [0.9], close)]), beyond(-1.0)).chosen == 0


def test_time_is_that_of_the_predictor() -> None:
    selection = select(Sampler([ranked(poses_at(0.0), [0.9])]), beyond(-1.0))
    assert 0.0 < selection.seconds < 5.0

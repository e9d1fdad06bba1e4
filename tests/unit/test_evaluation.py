"""Answers are judged by what was demonstrated; folds leave each demonstration out once."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from handful.demos import Step
from handful.errors import FileFormatError, OptionError
from handful.evaluation import (
    Answer,
    Outcome,
    advice,
    ask,
    calibrate_run,
    correction_of,
    evaluate,
    fold_recipes,
    folds_of,
    found_again,
    pose_error,
    read_answers,
    summaries_of,
    write_answers,
)
from handful.evaluation import _folds as folds
from handful.learning import RunFolder, recipe_for, train_in_folder
from handful.models import EdfModel
from handful.policy import Confidence, Predictor, RankedPoses
from samples import thin_sample
from small_training import small_recipe, smaller

GRIPPER = thin_sample(2).gripper


def answer(demo: str = "a", step: str = "take", **changes) -> Answer:
    plain = Answer(demo, step, 0.004, 0.05, 1, 0.9, 0.8, True, 0.1, np.eye(4))
    return replace(plain, **changes)


def turned_about_contact(step: Step, turn: Rotation) -> np.ndarray:
    T = GRIPPER.T_gripper_contact
    motion = np.eye(4)
    motion[:3, :3] = turn.as_matrix()
    return step.targets[0] @ T @ motion @ np.linalg.inv(T)


def test_a_demonstrated_pose_has_no_error():
    for step in thin_sample(2)[0].steps:
        assert pose_error(step.targets[0], step, GRIPPER) == pytest.approx((0.0, 0.0), abs=1e-6)


def test_the_fingers_of_an_empty_gripper_may_change_sides_and_those_of_a_full_one_not():
    taking, leaving = thin_sample(2)[0].steps
    half = Rotation.from_euler("z", 180, degrees=True)
    same = pose_error(turned_about_contact(taking, half), taking, GRIPPER)
    assert same == pytest.approx((0.0, 0.0), abs=1e-6)
    assert pose_error(turned_about_contact(leaving, half), leaving, GRIPPER)[1] > 3.1


def test_an_empty_gripper_is_judged_at_its_contact_point():
    step = thin_sample(2)[0].steps[0]
    pose = turned_about_contact(step, Rotation.from_euler("y", 0.2))
    assert pose_error(pose, step, GRIPPER) == pytest.approx((0.0, 0.2), abs=1e-6)
    pose[:3, 3] += 0.03, 0.0, 0.0
    assert pose_error(pose, step, GRIPPER)[0] == pytest.approx(0.03)


def test_the_nearest_of_several_targets_counts():
    step = thin_sample(2)[0].steps[0]
    other = step.targets[0].copy()
    other[0, 3] += 0.2
    both = step.changed(targets=np.stack([other, step.targets[0]]))
    assert pose_error(step.targets[0], both, GRIPPER)[0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, Outcome.FOUND),
        ({"confidence": 0.3}, Outcome.UNSURE),
        ({"distance": 0.2, "rank": 7}, Outcome.ELSEWHERE),
        ({"distance": 0.2, "rank": 7, "demonstrated": 0.1}, Outcome.MISSED),
        ({"angle": 1.0, "rank": None}, Outcome.MISSED),
        ({"T_scene_gripper": None, "distance": np.inf, "rank": None}, Outcome.NOTHING),
    ],
)
def test_outcomes(changes, outcome):
    assert answer(**changes).outcome is outcome


def test_answers_are_read_as_they_were_written(tmp_path):
    given = [
        answer(on_target=True, without=0.25),
        answer("b", T_scene_gripper=None, distance=np.inf, rank=None),
    ]
    write_answers(given, tmp_path / "answers.json")
    for one, other in zip(given, read_answers(tmp_path / "answers.json"), strict=True):
        for name, value in vars(one).items():
            np.testing.assert_equal(getattr(other, name), value)
    (tmp_path / "answers.json").write_text('{"format": "x", "version": 1, "answers": []}')
    with pytest.raises(FileFormatError, match="need 'handful-answers' 1 or 2"):
        read_answers(tmp_path / "answers.json")


def test_answers_of_version_1_say_nothing_of_confidence_without_the_target(tmp_path):
    path = tmp_path / "answers.json"
    write_answers([answer(on_target=True, without=0.25)], path)
    content = json.loads(path.read_text())
    content["version"] = 1
    del content["answers"][0]["on_target"], content["answers"][0]["without"]
    path.write_text(json.dumps(content))
    (old,) = read_answers(path)
    assert (old.on_target, old.without) == (None, None)
    assert correction_of(summaries_of([old])[0], Confidence(0.0, 1.0)) is None


def test_left_out_answers_correct_confidence_with_the_target_and_without_it():
    plain = Confidence(0.0, 1.0)

    def corrected(**changes) -> float:
        answers = [answer(str(i), on_target=True, **changes) for i in range(10)]
        (one,) = summaries_of(answers)
        assert "10 of 10 answers are on the target" in one.reliability
        return float(correction_of(one, plain).of(np.array([0.0]))[0])

    assert corrected(confidence=0.3, without=0.05) > 0.5, "right ones were doubted"
    assert corrected(confidence=0.9, without=0.8) < 0.5, "others were believed"


class FreeTurn(Predictor):
    """A predictor of a thing that may be put down in any turn: it proposes others than was shown.

    Attributes:
        energy: Of the demonstrated pose; proposed ones have 1 to 4.
    """

    energy: float

    def look(self, scene, grasp=None, workspace=None):
        return self

    def sample(self, n, seed):
        poses = np.stack([np.eye(4)] * 4)
        poses[:, :3, :3] = Rotation.from_euler(
            "z", [[60], [120], [180], [240]], degrees=True
        ).as_matrix()
        return RankedPoses(poses, np.arange(1.0, 5.0), np.full(4, 0.9), 0.1, GRIPPER)

    def rate(self, poses):
        return RankedPoses(poses, np.array([self.energy]), np.array([0.8]), 0.1, GRIPPER)


@pytest.mark.parametrize(
    ("energy", "rank", "good"), [(0.5, 1, True), (2.5, 3, True), (9, None, False)]
)
def test_a_demonstrated_pose_that_is_as_good_as_the_proposed_ones_is_known(energy, rank, good):
    step = thin_sample(2)[0].step("place")
    model = EdfModel(small_recipe("place", step.action).model)
    predictor = FreeTurn(step.task_step, model, GRIPPER)
    object.__setattr__(predictor, "energy", float(energy))
    found = ask(predictor, "a", step, GRIPPER)
    assert found.rank == rank
    assert found.outcome.good == good


def test_the_worst_come_first_and_the_advice_fits():
    missed = answer("b", distance=0.3, rank=None)
    good = [answer(name) for name in "acdef"]
    (one,) = summaries_of([*good, missed])
    assert one.answers[0] is missed
    assert (one.right, one.enough) == (5, True)
    assert "b is not like the others" in advice([one], left_out=True, steps=None)[0]
    (bad,) = summaries_of([missed, replace(missed, demo="c"), answer("d")])
    assert "Record more demonstrations" in advice([bad], left_out=True, steps=None)[0]
    assert "trained on are not found again" in advice([bad], left_out=False, steps=None)[0]
    (fine,) = summaries_of(good)
    assert "Try them on the robot" in advice([fine], left_out=True, steps=None)[0]
    assert "quick look" in advice([fine], left_out=True, steps=5)[0]


@pytest.mark.parametrize("count", [None, 2, 3])
def test_each_demonstration_is_left_out_once(count, tmp_path):
    demos = thin_sample(3)
    parts = folds_of(demos, count, tmp_path)
    out = [name for part in parts for name in part.left_out]
    assert sorted(out) == [demo.name for demo in demos]
    for part in parts:
        assert not set(part.left_out) & {demo.name for demo in part.demos}
        assert len(part.left_out) + len(part.demos) == len(demos)


@pytest.mark.parametrize(("demos", "count"), [(1, None), (3, 4), (3, 1)])
def test_folds_that_cannot_be_are_one_sentence(demos, count, tmp_path):
    with pytest.raises(OptionError, match="need"):
        folds_of(thin_sample(demos), count, tmp_path)


@pytest.fixture
def small_trainings(monkeypatch):
    """Folds train small models, in this process."""
    trained = []

    def train_here(jobs, **options):
        for job in jobs:
            trained.append(job)
            train_in_folder(job.demos, job.recipe, job.folder, resume=True)

    monkeypatch.setattr(folds, "train_jobs", train_here)
    monkeypatch.setattr(
        folds, "recipe_for", lambda *words, **options: smaller(recipe_for(*words, **options))
    )
    return trained


def test_an_evaluation_asks_about_what_was_left_out_and_does_nothing_twice(
    small_trainings, tmp_path
):
    demos = thin_sample(2)
    first = evaluate(demos, tmp_path, steps=1)
    assert [(one.demo, one.step) for one in first] == [
        (demo.name, step) for demo in demos for step in demo.task.names
    ]
    assert len(small_trainings) == 4
    again = evaluate(demos, tmp_path, steps=1)
    assert len(small_trainings) == 4
    assert [one.distance for one in again] == [one.distance for one in first]
    with pytest.raises(OptionError, match="other demonstrations or options"):
        evaluate(demos, tmp_path, steps=2)


def test_a_run_is_calibrated_by_what_was_left_out(small_trainings, tmp_path):
    demos = thin_sample(2)
    recipes = [smaller(one) for one in fold_recipes(demos, steps=1)]
    answers = evaluate(demos, tmp_path / "evaluation", steps=1)
    assert all(one.without is not None and one.on_target is not None for one in answers)
    run = tmp_path / "run"
    with pytest.raises(FileFormatError, match="no such folder"):
        calibrate_run(run, demos, recipes, summaries_of(answers))
    for recipe in recipes:
        train_in_folder(demos, recipe, run)
    before = {name: one.confidence for name, one in RunFolder(run).predictors().items()}
    told = calibrate_run(run, demos, recipes, summaries_of(answers))
    after = {name: one.confidence for name, one in RunFolder(run).predictors().items()}
    assert after == told
    for name, curve in after.items():
        assert (curve.threshold, curve.scale) == (before[name].threshold, before[name].scale)
        assert (curve.slope, curve.offset) != (1.0, 0.0)
    assert calibrate_run(run, demos, recipes, summaries_of(answers)) == told, "again is the same"
    longer = [smaller(one) for one in fold_recipes(demos, steps=2)]
    with pytest.raises(OptionError, match="other demonstrations or options"):
        calibrate_run(run, demos, longer, summaries_of(answers))


def test_a_run_is_asked_about_its_own_demonstrations(tmp_path):
    demos = thin_sample(2)
    train_in_folder(demos, smaller(recipe_for(demos, "pick", steps=1)), tmp_path)
    answers = found_again(tmp_path, demos, ("pick",))
    assert [one.demo for one in answers] == ["demo_00", "demo_01"]
    assert read_answers(tmp_path / "answers.json")[0].demo == "demo_00"
    predictor = RunFolder(tmp_path).predictor("pick")
    same = ask(predictor, "demo_00", demos[0].step("pick"), demos.gripper)
    assert same.distance == answers[0].distance

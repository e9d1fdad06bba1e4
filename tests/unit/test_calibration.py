"""Confidence: the curve is the one that made the samples, and honest where there is none."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from handful.clouds import PointCloud
from handful.errors import OptionError
from handful.learning import on_target
from handful.learning._calibration import Trials, calibrate, trials
from handful.learning.variation import Composition, examples_of, focus_of
from handful.models import EdfModel
from handful.policy import Confidence, Predictor
from samples import thin_sample
from small_training import COARSE, THIN, small_recipe


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- the curve ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("threshold", "scale"), [(0.0, 1.0), (5.0, 0.2), (-3.0, 4.0)])
def test_a_known_curve_is_recovered_from_many_samples(threshold, scale):
    known = Confidence(threshold, scale)
    energies = threshold + scale * rng().uniform(-6, 6, 20_000)
    right = rng(1).uniform(size=20_000) < known.of(energies)
    found = Confidence.fitted(energies, right, float(right.mean()))
    assert found.threshold == pytest.approx(threshold, abs=0.1 * scale)
    assert found.scale == pytest.approx(scale, rel=0.1)
    np.testing.assert_allclose(found.of(energies), known.of(energies), atol=0.03)


def normal_energies(good: int, bad: int, apart: float) -> tuple[np.ndarray, np.ndarray]:
    """Two normal kinds of one width; where both are as frequent, the odds are logistic in E."""
    energies = np.concatenate([rng(2).normal(0.0, 1.0, good), rng(3).normal(apart, 1.0, bad)])
    return energies, np.arange(good + bad) < good


@pytest.mark.parametrize(("good", "bad"), [(4000, 4000), (8000, 1000), (1000, 8000)])
def test_the_curve_does_not_depend_on_how_many_of_each_kind_were_tried(good, bad):
    """Threshold apart / 2 + scale * log odds and scale 1 / apart, by Bayes' rule."""
    for present in (0.5, 0.8):
        found = Confidence.fitted(*normal_energies(good, bad, 2.0), present)
        odds = present / (1.0 - present)
        assert found.threshold == pytest.approx(1.0 + 0.5 * np.log(odds), abs=0.1)
        assert found.scale == pytest.approx(0.5, rel=0.15)


def test_energies_may_have_any_zero_and_unit():
    energies, right = normal_energies(300, 200, 1.5)
    one = Confidence.fitted(energies, right)
    other = Confidence.fitted(1e3 * energies - 7e4, right)
    assert other.threshold == pytest.approx(1e3 * one.threshold - 7e4, rel=1e-6)
    assert other.scale == pytest.approx(1e3 * one.scale, rel=1e-6)


def test_kinds_that_do_not_overlap_give_no_step_and_a_half_between():
    good, bad = np.array([3.0, 3.5, 4.0, 3.2]), np.array([8.0, 9.0, 7.5, 8.5])
    curve = Confidence.fitted(np.concatenate([good, bad]), np.arange(8) < 4)
    assert 4.0 < curve.threshold < 7.5
    assert 0.05 < curve.scale < 5.0
    assert curve.of(good).min() > 0.7
    assert curve.of(bad).max() < 0.3
    assert curve.of(np.array([curve.threshold]))[0] == pytest.approx(0.5)
    assert (np.diff(curve.of(np.linspace(2.0, 10.0, 50))) < 0).all()
    more = Confidence.fitted(
        np.tile(np.concatenate([good, bad]), 20), np.tile(np.arange(8) < 4, 20)
    )
    assert more.scale < curve.scale, "more samples make it surer"


def test_nothing_is_told_where_energies_tell_nothing():
    energies = rng(4).normal(5.0, 2.0, 4000)
    for right in (rng(5).uniform(size=4000) < 0.5, np.arange(4000) % 2 == 0, energies > 5.0):
        told = Confidence.fitted(energies, right).of(energies)
        assert told.min() > 0.4
        assert told.max() < 0.6
    rightly = Confidence.fitted(energies, energies < 5.0).of(energies)
    assert rightly.max() > 0.95, "the control: low energies are the right ones"
    assert rightly.min() < 0.05


def test_all_right_is_trusted_and_none_right_is_not():
    energies = rng(6).normal(5.0, 1.0, 24)
    every = np.ones(24, dtype=bool)
    assert Confidence.fitted(energies, every).of(energies).min() > 0.9
    assert Confidence.fitted(energies, ~every).of(energies).max() < 0.1
    for right in (every[:1], ~every[:1]):
        one = Confidence.fitted(energies[:1], right)
        assert (one.of(energies[:1]) > 0.5) == right


def test_equal_energies_are_no_reason_for_anything_but_a_half():
    curve = Confidence.fitted(np.full(10, 3.0), np.arange(10) < 5)
    np.testing.assert_allclose(curve.of(np.full(10, 3.0)), 0.5, atol=1e-6)


def test_confidence_is_never_a_warning_and_never_a_nan():
    curve = Confidence(0.0, 1e-9)
    np.testing.assert_array_equal(curve.of(np.array([-1e9, 1e9])), [1.0, pytest.approx(0.0)])
    for energies in (np.array([1.0, np.nan]), np.array([1.0, np.inf]), np.array([])):
        with pytest.raises(OptionError, match="finite energies of one pose or more"):
            Confidence.fitted(energies, np.zeros(len(energies), dtype=bool))
    with pytest.raises(OptionError, match="scale"):
        Confidence(0.0, 0.0)


# --- corrections --------------------------------------------------------------------------------


def test_a_correction_changes_the_logit_and_nothing_else():
    curve = Confidence(2.0, 0.5, slope=3.0, offset=-1.0)
    energies = np.linspace(0.0, 4.0, 9)
    plain = Confidence(2.0, 0.5).of(energies)
    expected = 3.0 * np.log(plain / (1.0 - plain)) - 1.0
    told = curve.of(energies)
    np.testing.assert_allclose(np.log(told / (1.0 - told)), expected, atol=1e-9)
    with pytest.raises(OptionError, match="slope"):
        Confidence(0.0, 1.0, slope=-1.0)
    with pytest.raises(OptionError, match="offset"):
        Confidence(0.0, 1.0, offset=np.nan)


@pytest.mark.parametrize(("slope", "offset"), [(1.0, 0.0), (0.5, -1.0), (2.0, 1.0)])
def test_many_left_out_answers_tell_a_known_correction(slope, offset):
    z = rng().uniform(-5, 5, 20_000)
    sure = 1.0 / (1.0 + np.exp(-z))
    right = rng(1).uniform(size=len(z)) < 1.0 / (1.0 + np.exp(-(slope * z + offset)))
    found = Confidence(7.0, 2.0).corrected(sure, right, float(right.mean()))
    assert (found.threshold, found.scale) == (7.0, 2.0)
    assert found.slope == pytest.approx(slope, rel=0.1)
    assert found.offset == pytest.approx(offset, abs=0.1)


def test_a_handful_of_answers_moves_the_curve_a_little_and_in_the_right_direction():
    sure = np.array([0.9] * 10 + [0.1] * 10)
    as_told = np.arange(20) < 10
    kept = Confidence(0.0, 1.0).corrected(sure, as_told)
    assert kept.of(np.array([0.0]))[0] == pytest.approx(0.5, abs=0.15)
    fooled = Confidence(0.0, 1.0).corrected(np.full(20, 0.9), as_told, present=0.5)
    at_09 = -np.log(9.0)
    assert 0.5 < fooled.of(np.array([at_09]))[0] < 0.8, "half of what was surely told was wrong"
    wrong = Confidence(0.0, 1.0).corrected(np.full(10, 0.9), np.zeros(10, dtype=bool))
    assert wrong.of(np.array([at_09]))[0] < 0.5
    assert (np.diff(wrong.of(np.linspace(-3, 3, 20))) < 0).all(), "lower energies are never worse"


def test_a_second_correction_replaces_the_first():
    sure, right = np.array([0.9, 0.8, 0.7, 0.2]), np.array([True, False, True, False])
    once = Confidence(1.0, 2.0).corrected(sure, right)
    assert once.corrected(sure, right) == once
    assert once != Confidence(1.0, 2.0)
    with pytest.raises(OptionError, match="finite confidences"):
        once.corrected(np.array([np.nan]), np.array([True]))


def test_confidences_of_zero_and_one_are_no_warning_and_no_infinity():
    found = Confidence(0.0, 1.0).corrected(np.array([0.0, 1.0]), np.array([True, False]))
    assert np.isfinite([found.slope, found.offset]).all()
    assert found.slope > 0


# --- on target ----------------------------------------------------------------------------------


def test_what_is_held_is_on_target_wherever_it_meets_the_place():
    """Turned about the place where it touches it is there; half a metre away it is not."""
    demos = thin_sample()
    contact = demos.gripper.T_gripper_contact
    step = demos[0].step("place")
    target = step.targets[0]
    assert on_target(target, step, contact)
    focus = focus_of(step, contact[:3, 3])
    turn = np.eye(4)
    turn[:3, :3] = np.diag([-1.0, -1.0, 1.0])
    turn[:3, 3] = focus - turn[:3, :3] @ focus
    assert on_target(turn @ target, step, contact)
    away = target.copy()
    away[0, 3] += 0.5
    assert not on_target(away, step, contact)
    several = step.changed(targets=np.stack([target, away]))
    assert on_target(away, several, contact)


def test_an_empty_gripper_is_on_target_on_the_object_or_where_it_was_shown():
    demos = thin_sample()
    contact = demos.gripper.T_gripper_contact
    step = demos[0].step("pick")
    away = step.targets[0].copy()
    away[0, 3] += 0.2
    at = (away @ contact)[:3, 3]
    thing = PointCloud((at + rng().normal(0.0, 0.005, (50, 3))).astype(np.float32))
    assert on_target(step.targets[0], step, contact)
    assert not on_target(away, step, contact)
    assert on_target(away, step, contact, thing), "the object is known, and it is there"
    assert not on_target(step.targets[0], step, contact, thing)


# --- trials -------------------------------------------------------------------------------------


def slow_auc(evidence: np.ndarray, right: np.ndarray) -> float:
    """Pair by pair; an undecided pair counts half."""
    pairs = [
        1.0 if good < bad else 0.5 if good == bad else 0.0
        for good in evidence[right]
        for bad in evidence[~right]
    ]
    return float(np.mean(pairs))


@pytest.mark.parametrize("seed", range(5))
def test_the_auc_is_the_share_of_pairs_in_the_right_order(seed):
    evidence = rng(seed).integers(0, 12, 40).astype(np.float64)  # with ties
    right = rng(seed + 50).uniform(size=40) < 0.4
    assert Trials(evidence, right).auc == pytest.approx(slow_auc(evidence, right))
    assert Trials(-evidence, right).auc == pytest.approx(1.0 - slow_auc(evidence, right))


def test_the_auc_of_one_kind_is_not_a_number():
    for right in (np.ones(3, dtype=bool), np.zeros(3, dtype=bool)):
        assert np.isnan(Trials(np.arange(3.0), right).auc)
    assert Trials(np.array([0.0, 1.0]), np.array([True, False])).auc == 1.0


@pytest.fixture(scope="module")
def untrained() -> Predictor:
    torch.manual_seed(0)
    recipe = small_recipe("pick", thin_sample().task.step("pick").action)
    model = EdfModel(recipe.model).eval()
    return Predictor(recipe.step, model, thin_sample().gripper, THIN, COARSE)


def test_trials_are_with_and_without_the_target_and_seeded(untrained):
    examples = examples_of(thin_sample(), "pick", THIN)
    recipe = small_recipe("pick", untrained.step.action)
    composed = replace(recipe.objective.variation, composition=Composition(1.0))
    one, again, other = (
        trials(untrained, examples, composed, seed, scenes=2) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.evidence, again.evidence)
    np.testing.assert_array_equal(one.right, again.right)
    assert not np.array_equal(one.evidence, other.evidence)
    assert len(one.evidence) == len(one.right) == 4, "two with the target, two without"
    assert not one.right[1::2].any(), "what is not there cannot be found"
    assert np.isfinite(one.evidence).all()


def test_a_place_that_is_missed_is_wrong_though_the_target_is_there(monkeypatch):
    torch.manual_seed(0)
    recipe = small_recipe("place", thin_sample().task.step("place").action)
    model = EdfModel(recipe.model).eval()
    predictor = Predictor(recipe.step, model, thin_sample().gripper, THIN, COARSE)
    examples = examples_of(thin_sample(), "place", THIN)
    far = np.eye(4)
    far[:3, 3] = 5.0
    monkeypatch.setattr("handful.learning._calibration._best", lambda *_: (1.0, far))
    found = trials(predictor, examples, recipe.objective.variation, 0, scenes=2)
    assert not found.right.any()


def test_calibration_is_the_curve_of_its_trials(untrained, monkeypatch):
    monkeypatch.setattr("handful.learning._calibration.trials", lambda *_: made_up)
    energies, right = normal_energies(50, 50, 2.0)
    made_up = Trials(energies, right)
    variation = small_recipe("pick", untrained.step.action).objective.variation
    assert calibrate(untrained, [], variation, 0, 100) == Confidence.fitted(energies, right)

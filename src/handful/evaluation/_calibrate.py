"""Confidence that is calibrated on demonstrations that were left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from handful._locks import alone
from handful.demos import DemoSet
from handful.errors import OptionError
from handful.evaluation._summary import StepSummary
from handful.learning import Recipe, RunFolder
from handful.policy import Confidence, Predictor, save_predictor


def correction_of(summary: StepSummary, confidence: Confidence) -> Confidence | None:
    """A curve, corrected by a step's answers about left-out demonstrations.

    Each demonstration counts twice: as it was recorded, where the answer is on the target or not,
    and with its target cut out, where no answer is right.

    Args:
        summary: Of answers of models whose own curves have no correction.
        confidence: The curve.

    Returns:
        None where nothing was asked that tells it.
    """
    told = [one for one in summary.answers if one.on_target is not None]
    with_target = [(one.confidence, bool(one.on_target)) for one in told]
    without = [(one.without, False) for one in told if one.without is not None]
    both = [*with_target, *without]
    if not both:
        return None
    sure, right = zip(*both, strict=True)
    return confidence.corrected(np.array(sure), np.array(right))


def check_same_training(run: Path, demos: DemoSet, recipes: Sequence[Recipe]) -> None:
    """Refuse a run whose models were not trained by these recipes on these demonstrations.

    Raises:
        OptionError: It is of other demonstrations or options.
        FileFormatError: There is no run, or it lacks a model.
    """
    folder = RunFolder(run)
    for recipe in recipes:
        folder.predictor(recipe.step.name)  # which says what a missing or partial run lacks
        if not folder.holds(demos, recipe):
            raise OptionError(
                f"--calibrate {run}: the step {recipe.step.name!r} was trained with other "
                "demonstrations or options than this evaluation: give the same ones."
            )


def calibrate_run(
    run: Path, demos: DemoSet, recipes: Sequence[Recipe], summaries: Sequence[StepSummary]
) -> dict[str, Confidence]:
    """Correct the confidence of a run's models by answers about left-out demonstrations.

    Models of folds and of the run are trained alike, so what holds for the confidences of those
    is taken to hold for the run's. An earlier correction is replaced.

    Args:
        run: Folder of the run.
        demos: What it was trained on, and what was left out in turn.
        recipes: By which it was trained, one for each step.
        summaries: Of the answers.

    Returns:
        The new curves, by the names of their steps.

    Raises:
        OptionError: The run is of other demonstrations or options.
    """
    check_same_training(run, demos, recipes)
    folder, found = RunFolder(run), {}
    by_name = {summary.step: summary for summary in summaries}
    for recipe in recipes:
        name = recipe.step.name
        with alone(folder.lock(name), f"{run}: the step {name!r}"):
            predictor = folder.predictor(name)
            assert isinstance(predictor, Predictor)
            curve = correction_of(by_name[name], predictor.confidence) if name in by_name else None
            if curve is not None:
                save_predictor(replace(predictor, confidence=curve), folder.model(name))
                found[name] = curve
    return found

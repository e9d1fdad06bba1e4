"""Calibration: the confidence curve of a trained model, from scenes that it has not seen.

A model knows its demonstrations by heart. Therefore it is asked about scenes that are made up from
them, as in training but whole and with random numbers of their own: some with the target and some
without it. How often the best pose is on a target, as a function of its energy, is the curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float

from handful.clouds import PointCloud
from handful.demos import Step
from handful.learning._on_target import on_something_else, on_target
from handful.learning.variation import ContextDropout, Example, Variation, focus_of, without_target
from handful.policy import CONSIDERED, Confidence, Judged, Predictor

SCENES = 24
"""Scenes with the target, and as many without it."""
FEWEST, STEPS_FOR_A_SCENE = 2, 25
"""Scenes that every model is asked about, and optimiser steps for each further one."""
_STREAM = 2**32
"""Part of the seeds, so that no random number is one of training."""


@dataclass(frozen=True, eq=False)
class Trials:
    """Best poses in scenes that training has not seen.

    Attributes:
        evidence: Energies of the best poses, as shares (`Predictor.evidence`).
        right: Whether each was on a target.
    """

    evidence: Float[np.ndarray, "scenes"]
    right: Bool[np.ndarray, "scenes"]

    @property
    def auc(self) -> float:
        """Probability that a right pose has less evidence against it than a wrong one."""
        good, bad = self.evidence[self.right], self.evidence[~self.right]
        if not len(good) or not len(bad):
            return float("nan")
        less = good[:, None] < bad[None, :]
        return float((less + 0.5 * (good[:, None] == bad[None, :])).mean())


def calibrate(
    predictor: Predictor,
    examples: Sequence[Example],
    variation: Variation,
    seed: int,
    steps: int,
) -> Confidence:
    """Confidence from the best energies in made-up scenes with and without the target.

    Args:
        predictor: Trained, its confidence not yet known.
        examples: What it was trained on.
        variation: What differed from them in training.
        seed: The same seed gives the same curve.
        steps: Optimiser steps of its training: a model that has hardly learned anything is asked
            about fewer scenes.
    """
    scenes = min(SCENES, FEWEST + steps // STEPS_FOR_A_SCENE)
    found = trials(predictor, examples, variation, seed, scenes)
    return Confidence.fitted(found.evidence, found.right)


def trials(
    predictor: Predictor,
    examples: Sequence[Example],
    variation: Variation,
    seed: int,
    scenes: int = SCENES,
) -> Trials:
    """Ask a predictor about made-up scenes with and without the target.

    Args:
        predictor: Asked.
        examples: What scenes are made from.
        variation: What differs from them; scenes are shown whole.
        seed: The same seed gives the same scenes.
        scenes: How many of each kind.
    """
    shown = ContextDropout(probability=0.0)
    whole = replace(variation, context=shown, held_context=shown)
    evidence: list[float] = []
    verdicts: list[bool | None] = []
    for number in range(scenes):
        example = examples[number % len(examples)]
        rng = np.random.default_rng([seed, _STREAM, number])
        step, thing = whole.apply_with_thing(example, rng)
        energy, T = _best(predictor, step.scene, step.grasp, seed)
        evidence.append(energy)
        verdicts.append(_verdict(T, step, example.contact, thing))
        focus = focus_of(step, example.contact[:3, 3])
        empty = without_target(step.scene, focus, rng, replaced=number % 2 == 1)
        if empty is not None:
            evidence.append(_best(predictor, empty, step.grasp, seed)[0])
            verdicts.append(False)
    # Where nothing is known to be right, what nobody has spoken against counts as right.
    told = np.array([verdict is not None or True not in verdicts for verdict in verdicts])
    right = np.array([verdict is None or verdict for verdict in verdicts])
    return Trials(np.array(evidence)[told], right[told])


def _verdict(
    T: Float[np.ndarray, "4 4"],
    step: Step,
    contact: Float[np.ndarray, "4 4"],
    thing: PointCloud | None,
) -> bool | None:
    """Whether a pose is on its target; None where nobody has said.

    In a scene as it was demonstrated nobody knows where the object ends that an empty gripper takes
    (`thing` is None): a pose near the demonstrated one is on it, and one far away is not.
    """
    if on_target(T, step, contact, thing):
        return True
    if thing is not None or step.action.holding:
        return False
    return False if on_something_else(T[None], step, contact)[0] else None


def _best(
    predictor: Predictor, scene: PointCloud, grasp: PointCloud | None, seed: int
) -> tuple[float, Float[np.ndarray, "4 4"]]:
    """Evidence and pose of the lowest energy; the clouds are prepared already."""
    with torch.no_grad():
        energy = predictor.model(scene, grasp)
    search = predictor.search
    generator = torch.Generator().manual_seed(seed)
    found = search.sampler(energy).sample(energy, search.workspace(energy), CONSIDERED, generator)
    judged = Judged.of(energy, predictor.model.verifier, found.poses, found.energies).sorted()
    return float(judged.evidence[0]), judged.poses[0].double().numpy()

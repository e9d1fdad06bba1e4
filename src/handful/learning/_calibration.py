"""Calibration: the confidence curve of a trained model, from its own demonstrations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from handful.clouds import PointCloud
from handful.demos import Step
from handful.learning.variation import focus_of, without_target
from handful.policy import Confidence, Predictor

CUT_OUT = (0.14, 0.17, 0.20)
"""Metres: radii of the balls that take a target out of a scene, one of them drawn each time."""


def calibrate(predictor: Predictor, steps: Sequence[Step], seed: int) -> Confidence:
    """Confidence from the best energies with the target, and with it cut out or replaced."""

    def best(scene: PointCloud, grasp: PointCloud | None) -> float:
        energy, _ = predictor.energy(scene, grasp)
        search = predictor.search
        generator = torch.Generator().manual_seed(seed)
        found = search.sampler(energy).sample(energy, search.workspace(energy), 1, generator)
        return float(predictor.evidence(energy, found.energies.double().numpy())[0])

    contact = predictor.trained_gripper.T_gripper_contact[:3, 3]
    present = [best(step.scene, step.grasp) for step in steps]
    absent = [
        best(scene, step.grasp)
        for index, step in enumerate(steps)
        for scene in _emptied(step, contact, np.random.default_rng([seed, index]))
    ]
    return Confidence.between(np.array(present), np.array(absent or [max(present) + 1.0]))


def _emptied(step: Step, contact: np.ndarray, rng: np.random.Generator) -> Iterator[PointCloud]:
    """The scene without its target, and with something else in its place."""
    focus = focus_of(step, contact)
    for replaced in (False, True):
        radius = CUT_OUT[int(rng.integers(len(CUT_OUT)))]
        scene = without_target(step.scene, focus, radius, rng, replaced)
        if scene is not None:
            yield scene

"""What a model knows of demonstrations that it has not seen: minutes instead of hours.

    handful collect mug --demos 10 --seed 900 --out out/mug900
    python benchmarks/policies/held_out.py runs/mug out/mug900 --step pick

Scenes are made up from further demonstrations as in training. Printed are the mean of -log P of the
target (at most 15 each, without rivals) with its standard error; in how many scenes the best pose
is on the target, of those where that is known; and the probability that a right best pose has a
higher confidence than a wrong one (AUC), scenes without the target among them. Likelihood tells
which of two recipes finds more; nothing is executed.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from handful.demos import DemoSet, load_demos
from handful.learning import LatticeNegatives, Rivals, RunFolder, recipe_for
from handful.learning._calibration import trials
from handful.learning.variation import examples_of
from handful.policy import Predictor

MOST = 15.0
"""A scene that is lost counts no more than this."""


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    predictor = RunFolder(options.run).predictor(options.step)
    demos = load_demos(options.demos)
    losses = likelihoods(predictor, demos, options.step, options.scenes, options.seed)
    objective = recipe_for(demos, options.step).objective
    examples = examples_of(demos, options.step, predictor.preparation)
    found = trials(predictor, examples, objective.variation, options.seed, options.trials)
    sure = predictor.confidence.of(found.evidence)
    print(
        f"{options.run} {options.step}: -log P {losses.mean():.2f} "
        f"(standard error {losses.std() / np.sqrt(len(losses)):.2f}); best poses right "
        f"{int(found.right.sum())}, wrong {int((~found.right).sum())}, AUC {found.auc:.2f}, median "
        f"confidences {np.median(sure[found.right]):.2f} and {np.median(sure[~found.right]):.2f}"
    )


def likelihoods(
    predictor: Predictor, demos: DemoSet, step: str, scenes: int, seed: int
) -> np.ndarray:
    """-log P of the target in each of some made-up scenes."""
    objective = recipe_for(demos, step).objective
    assert isinstance(objective.negatives, LatticeNegatives)
    objective = replace(objective, negatives=replace(objective.negatives, rivals=Rivals()))
    examples = examples_of(demos, step, predictor.preparation)
    losses = []
    with torch.no_grad():
        for number in range(scenes):
            rng = np.random.default_rng([seed, number])
            example = examples[number % len(examples)]
            losses.append(objective.loss(predictor.model, example, rng, 1.0).likelihood)
    return np.minimum(losses, MOST)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path)
    parser.add_argument("demos", type=Path, help="demonstrations that it was not trained on")
    parser.add_argument("--step", required=True)
    parser.add_argument("--scenes", type=int, default=96, help="for the likelihood")
    parser.add_argument("--trials", type=int, default=48, help="with the target, and without it")
    parser.add_argument("--seed", type=int, default=900)
    return parser.parse_args()


if __name__ == "__main__":
    main()

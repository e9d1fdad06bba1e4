"""What a run can say of itself without retraining: whether it finds its own targets again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from handful.demos import DemoSet
from handful.evaluation._answers import Answer, ask
from handful.evaluation._storage import write_answers
from handful.learning import RunFolder

MOST_ASKED = 4
"""Demonstrations that the model of a step is asked about, spread over the set: seconds."""
OWN = "answers.json"
"""Their file in the run's folder."""


def found_again(run: Path, demos: DemoSet, steps: tuple[str, ...], seed: int = 0) -> list[Answer]:
    """Ask the models of a run about some of the demonstrations that they were trained on.

    A model that does not know its own demonstrations has learned nothing. One that does may still
    not know others: `evaluate` tells that.

    Args:
        run: Its folder; the answers are kept there.
        demos: What it was trained on.
        steps: Names of the steps that are asked.
        seed: The same seed gives the same answers.
    """
    chosen = np.unique(np.linspace(0, len(demos) - 1, MOST_ASKED).round().astype(int))
    answers = []
    for name in steps:
        predictor = RunFolder(run).predictor(name)
        for index in chosen.tolist():
            demo = demos[index]
            if name in demo.task.names:
                answers.append(ask(predictor, demo.name, demo.step(name), demos.gripper, seed))
    write_answers(answers, run / OWN)
    return answers

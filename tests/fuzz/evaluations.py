"""Evaluations, and what a run says of its own demonstrations."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np

from fuzz.subject import Subject, raise_worst
from handful.demos import save_demos
from handful.evaluation import (
    Answer,
    Evaluation,
    correction_of,
    read_evaluation,
    summaries_of,
    write_answers,
    write_evaluation,
    write_evaluation_page,
)
from handful.evaluation._folds import answers_file
from handful.evaluation._found_again import OWN
from handful.learning import RunFolder
from handful.policy import Confidence
from samples import small_demos


def _make(folder: Path) -> None:
    demos = small_demos(2)
    save_demos(demos, folder / "set")
    answers = [
        Answer(demo.name, step.name, 0.01, 0.1, 1, 0.9, 0.8, True, 0.1, step.targets[0], True, 0.2)
        for demo in demos
        for step in demo.steps
    ]
    lost = Answer(
        "other", demos[0].steps[0].name, np.inf, np.inf, None, 0.0, 0.1, False, 0.1, None, None, 0.1
    )
    for number in range(2):
        path = answers_file(folder / "evaluation", number)
        path.parent.mkdir(parents=True)
        write_answers([*answers[number::2], lost], path)
    write_evaluation(
        Evaluation("set", 2, 2, None, "handful evaluate set", ()), folder / "evaluation"
    )
    (folder / "run").mkdir()
    RunFolder(folder / "run").note(
        steps=[{"name": step.name, "action": step.action.value} for step in demos[0].steps],
        torch="2.0", handful="0.1", python="3.11",
        demonstrations={"folder": "set", "count": 2}, options={"preset": "fast", "seed": 0},
        command="handful train set --out run", models={},
    )  # fmt: skip
    write_answers(answers, folder / "run" / OWN)


def _place(folder: Path, _: random.Random) -> None:
    """Demonstrations noted where they are."""
    for path in (folder / "evaluation/evaluation.json", folder / "run/run.json"):
        text = path.read_text()
        path.write_text(text.replace('"set"', json.dumps(str(folder / "set"))))


def _read(folder: Path) -> None:
    errors = []
    for number, name in enumerate(("evaluation", "run")):
        try:
            page = folder / "out" / str(number) / "report.html"
            write_evaluation_page(folder / name, page, pictures=number == 0)
        except Exception as error:
            errors.append(error)
    try:
        for one in summaries_of(read_evaluation(folder / "evaluation").answers):
            correction_of(one, Confidence(0.0, 1.0))
    except Exception as error:
        errors.append(error)
    raise_worst(errors)


EVALUATIONS = {"evaluation": Subject(_make, _read, 1.0, 20.0, _place)}

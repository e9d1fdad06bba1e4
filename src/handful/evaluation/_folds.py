"""Folds: each model is asked about demonstrations that it was not trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from handful._files import remove_file
from handful.demos import DemoSet
from handful.errors import OptionError
from handful.evaluation._answers import Answer, ask, ask_without
from handful.evaluation._storage import read_answers, write_answers
from handful.learning import Recipe, RunFolder, StepReport, TrainingJob, recipe_for, train_jobs
from handful.policy import Predictor

ANSWERS = "answers.json"


def fold_folder(folder: Path, number: int) -> Path:
    """The run of a fold's models, in the folder of an evaluation."""
    return folder / "folds" / f"{number:02d}"


def answers_file(folder: Path, number: int) -> Path:
    """The answers of a fold's models."""
    return fold_folder(folder, number) / ANSWERS


@dataclass(frozen=True, eq=False)
class Fold:
    """One of the parts of a demonstration set that are left out in turn.

    Attributes:
        number: From 0.
        left_out: Names of the demonstrations that are asked about.
        demos: The others, which are trained on.
        folder: The run of their models.
    """

    number: int
    left_out: tuple[str, ...]
    demos: DemoSet
    folder: Path


def folds_of(demos: DemoSet, count: int | None, folder: Path) -> list[Fold]:
    """Demonstrations dealt out in turn, so that neighbours are in different folds.

    Args:
        demos: Two or more.
        count: How many folds; as many as demonstrations if not given: each is left out once.
        folder: Of the evaluation.
    """
    many = len(demos) if count is None else count
    if len(demos) < 2:
        raise OptionError(
            f"evaluate: the set has {len(demos)} demonstration: need two or more, since each is "
            "left out in turn."
        )
    if not 2 <= many <= len(demos):
        raise OptionError(f"--folds {many}: need 2 to {len(demos)}, one demonstration each.")
    found = []
    for number in range(many):
        out = {demo.name for demo in demos.demonstrations[number::many]}
        kept = tuple(demo for demo in demos if demo.name not in out)
        found.append(
            Fold(
                number,
                tuple(sorted(out)),
                replace(demos, demonstrations=kept),
                fold_folder(folder, number),
            )
        )
    return found


def fold_recipes(
    demos: DemoSet, *, steps: int | None = None, seed: int = 0, colors_matter: bool = False
) -> list[Recipe]:
    """How the models of an evaluation are trained, one recipe for each step; as for `evaluate`."""
    return [
        recipe_for(demos, name, colors_matter=colors_matter, steps=steps, seed=seed)
        for name in demos.task.names
    ]


def evaluate(
    demos: DemoSet,
    folder: Path,
    *,
    folds: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    colors_matter: bool = False,
    workers: int | None = None,
    report: Callable[[Fold, str, StepReport], None] | None = None,
) -> list[Answer]:
    """Train a model of each step without each fold, and ask it about what was left out.

    What is there already, from the same demonstrations and options, is not done again.

    Args:
        demos: What to learn from, and to be judged by.
        folder: For the runs and answers.
        folds: As for `folds_of`.
        steps: Optimiser steps, instead of the recipe's; fewer for a quick look.
        seed: Of training.
        colors_matter: As for `recipe_for`.
        workers: Trainings at once; as many as there are cores if not given.
        report: Told the fold, the name of the step and what happened after each optimiser step.
    """
    parts = folds_of(demos, folds, folder)
    jobs = []
    owner: list[Fold] = []
    for fold in parts:
        run = RunFolder(fold.folder)
        recipes = fold_recipes(fold.demos, steps=steps, seed=seed, colors_matter=colors_matter)
        for recipe in recipes:
            if not run.holds(fold.demos, recipe):
                if run.model(recipe.step.name).exists():
                    raise OptionError(
                        f"{folder}: holds an evaluation with other demonstrations or options: give "
                        "the same ones, or name another folder."
                    )
                remove_file(fold.folder / ANSWERS)
                jobs.append(TrainingJob(fold.demos, recipe, fold.folder))
                owner.append(fold)

    def tell(index: int, done: StepReport) -> None:
        if report is not None:
            report(owner[index], jobs[index].recipe.step.name, done)

    train_jobs(jobs, workers=workers, resume=True, report=tell)
    return [answer for fold in parts for answer in _answers(fold, demos, seed)]


def _answers(fold: Fold, demos: DemoSet, seed: int) -> list[Answer]:
    """The answers of a fold's models, from its folder if they are there."""
    path = fold.folder / ANSWERS
    if path.is_file():
        return read_answers(path)
    found = []
    predictors = RunFolder(fold.folder).predictors()
    for number, demo in enumerate(demos):
        if demo.name in fold.left_out:
            for step in demo.steps:
                if step.name in predictors:
                    predictor = predictors[step.name]
                    answer = ask(predictor, demo.name, step, demos.gripper, seed)
                    if isinstance(predictor, Predictor):
                        without = ask_without(predictor, step, demos.gripper, number, seed)
                        answer = replace(answer, without=without)
                    found.append(answer)
    write_answers(found, path)
    return found

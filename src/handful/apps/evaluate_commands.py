"""How good is mine: `handful evaluate`, and what every training says of itself at its end."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handful.apps._options import Seed, TrainingSteps
from handful.apps._progress import told_progress
from handful.apps.check_commands import Force, check_before_training
from handful.errors import OptionError

if TYPE_CHECKING:
    from handful.demos import DemoSet
    from handful.evaluation import Fold
    from handful.learning import StepReport

console = Console(emoji=False)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(evaluate)


def evaluate(
    demos: Annotated[Path, typer.Argument(help="A demonstration folder.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option("--out", help="Folder for models, answers and page.", show_default=False),
    ],
    folds: Annotated[
        int | None,
        typer.Option(min=2, help="Parts that are left out in turn.", show_default="leave one out"),
    ] = None,
    steps: TrainingSteps = None,
    seed: Seed = 0,
    colors_matter: Annotated[
        bool, typer.Option("--colors-matter", help="As for `handful train`.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Trainings at once.", show_default="all cores"),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            help="A run of the same demonstrations: correct its confidence by the answers.",
            show_default=False,
        ),
    ] = None,
    pictures: Annotated[bool, typer.Option(help="Draw the worst answers.")] = True,
    force: Force = False,
) -> None:
    """Judge a set by itself: each demonstration is left out once and must be found by the others.

    A model of each step is trained for each fold, as `handful train` does, side by side. The same
    command again goes on where it was interrupted, and does nothing twice. One page shows errors,
    confidence and feasibility, pictures of the worst answers, and what to do next.

    Example: `handful evaluate out/mug --out runs/mug_evaluation`

    Example: `handful evaluate out/mug --out runs/look --folds 2 --steps 200`

    Example: `handful evaluate out/mug --out runs/mug_evaluation --calibrate runs/mug`
    """
    from handful.demos import load_demos
    from handful.evaluation import (
        Evaluation,
        advice,
        calibrate_run,
        check_same_training,
        fold_recipes,
        folds_of,
        summaries_of,
        write_evaluation,
        write_evaluation_page,
    )
    from handful.evaluation import evaluate as run_evaluation

    if (out / "run.json").exists():
        raise OptionError(f"{out}: holds a training run: give the evaluation a folder of its own.")
    loaded = load_demos(demos)
    count = len(folds_of(loaded, folds, out))
    check_before_training(loaded, demos, force)
    recipes = fold_recipes(loaded, steps=steps, seed=seed, colors_matter=colors_matter)
    if calibrate is not None:
        check_same_training(calibrate, loaded, recipes)  # before hours of training
    with _bars() as tell:
        answers = run_evaluation(
            loaded,
            out,
            folds=folds,
            steps=steps,
            seed=seed,
            colors_matter=colors_matter,
            workers=workers,
            report=tell,
        )
    command = shlex.join(["handful", *sys.argv[1:]])
    kept = Evaluation(str(demos.absolute()), len(loaded), count, steps, command, tuple(answers))
    write_evaluation(kept, out)
    with console.status("Writing the page") as status:
        page = write_evaluation_page(
            out, out / "report.html", pictures, lambda what: status.update(escape(what))
        )
    summaries = summaries_of(answers)
    for one in summaries:
        _say(str(one))
        _say(f"  {one.reliability}.")
    for sentence in advice(summaries, left_out=True, steps=steps):
        _say(f"  {sentence}")
    if calibrate is not None:
        calibrated = calibrate_run(calibrate, loaded, recipes, summaries)
        _say(f"Confidence of {calibrate} calibrated on left-out demonstrations: "
             f"{', '.join(calibrated)}.")  # fmt: skip
    _say(f"Page: {page}")


def tell_found_again(run: Path, demos: DemoSet, steps: tuple[str, ...], seed: int) -> None:
    """Ask models that were just trained about their own demonstrations, and say what came of it."""
    from handful.evaluation import advice, found_again, summaries_of

    with console.status("Asking the models about their own demonstrations"):
        summaries = summaries_of(found_again(run, demos, steps, seed))
    for one in summaries:
        _say(f"Own demonstrations, {one}.")
    if not all(one.enough for one in summaries):
        console.print(
            "[bold yellow]Warning:[/bold yellow] not all models know what they were shown."
        )
        for sentence in advice(summaries, left_out=False, steps=None):
            _say(f"  {sentence}")


@contextmanager
def _bars() -> Iterator[Callable[[Fold, str, StepReport], None]]:
    """A bar for the training of each step without each fold, made when it begins."""
    with told_progress(console) as bars:
        lines: dict[tuple[int, str], int] = {}

        def tell(fold: Fold, step: str, report: StepReport) -> None:
            key = fold.number, step
            if key not in lines:
                name = f"without {fold.left_out[0]}{' ...' if len(fold.left_out) > 1 else ''}"
                lines[key] = bars.add_task(escape(f"{step}, {name}"), total=report.steps, told="")
            told = f"loss {report.loss:.2f}"
            bars.update(lines[key], completed=report.step + 1, told=told)  # type: ignore[arg-type]

        yield tell


def _say(text: str) -> None:
    console.print(escape(text), soft_wrap=True, highlight=False)

"""The command of learning: `handful train`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handful.apps._options import Seed, TrainingSteps, processes_of_torchrun
from handful.apps._progress import told_progress
from handful.apps.check_commands import Force, check_before_training
from handful.apps.evaluate_commands import tell_found_again
from handful.errors import OptionError

if TYPE_CHECKING:
    from handful.demos import DemoSet
    from handful.learning import RunFolder, StepRecipe, StepReport

console = Console(emoji=False)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(train)


def train(
    demos: Annotated[Path, typer.Argument(help="A demonstration folder.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="The run's folder.", show_default=False)],
    step: Annotated[
        str | None, typer.Option(help="Train this step only.", show_default="all steps")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="edf: the paper's. edf-type0: its ablation. Others: docs/methods.md.",
        ),
    ] = "edf",
    preset: Annotated[
        str,
        typer.Option(
            help="Of the method. edf has fast (minutes) and paper (its Markov chains, many hours).",
            show_default="the method's first",
        ),
    ] = "",
    colors_matter: Annotated[
        bool,
        typer.Option(
            "--colors-matter",
            help="Only objects of the demonstrated colours are meant. Else any colour may come.",
        ),
    ] = False,
    seed: Seed = 0,
    steps: TrainingSteps = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Train anew what is already in the folder.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Steps trained at once.", show_default="all cores"),
    ] = None,
    force: Force = False,
) -> None:
    """Train one model for each step of the demonstrated task, steps side by side.

    Ctrl-C loses nothing: the same command with `--resume` goes on and gives the very same models.
    They are the same however many cores there are. Several processes share the work of one step
    with `torchrun --nproc-per-node 2 -m handful train ...`.

    Example: `handful train out/mug --out runs/mug`

    Example: `handful train out/red_cube --out runs/red_cube --colors-matter`

    Example: `handful train out/mug --out runs/mug_type0 --method edf-type0`

    Example: `handful train out/mug --out runs/mug --step "hang mug" --resume`
    """
    from handful.demos import load_demos
    from handful.learning import MethodOptions, RunFolder, method_named

    chosen = method_named(method)
    options = MethodOptions(preset, steps, seed, colors_matter)
    preset = chosen.preset_of(options)
    loaded = load_demos(demos)
    names = loaded.task.names if step is None else (loaded.task.step(step).name,)
    check_before_training(loaded, demos, force)
    if (method, preset) == ("edf", "paper"):
        console.print("The paper's Markov chains take hours on a GPU, and days here.")
    recipes = [chosen.recipe(loaded, name, options) for name in names]
    with _process_group() as first:
        train_with_progress(
            loaded, recipes, out, workers=workers, resume=resume, overwrite=overwrite, shown=first
        )
        if not first:
            return
        RunFolder(out).note_training(
            demos,
            len(loaded),
            shlex.join(["handful", *sys.argv[1:]]),
            {
                "method": method,
                "preset": preset,
                "colors_matter": colors_matter,
                "seed": seed,
            },
        )
    for name in names:
        _tell_separation(RunFolder(out), name, len(loaded))
    tell_found_again(out, loaded, names, seed)
    look = shlex.join(["handful", "infer", str(out), "SCENE.ply", "--step", names[0]])
    console.print(escape(f"Trained: {out}. Use it: {look}"), soft_wrap=True)


def _tell_separation(run: RunFolder, step: str, count: int) -> None:
    """Say where objects could not be told from their scenes, and what helps."""
    separated = run.trained(step).separated
    if separated is not None and separated < count:
        console.print(
            escape(
                f"Step {step!r}: in {count - separated} of {count} demonstrations the object "
                "cannot be told from its scene, and is only shown where it stood. To have it shown "
                "lying, raised and among other things, record the grasp cloud of the next step."
            ),
            soft_wrap=True,
        )


def train_with_progress(
    demos: DemoSet,
    recipes: Sequence[StepRecipe],
    folder: Path,
    *,
    workers: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    shown: bool = True,
) -> None:
    """Train the models of a run side by side, with a progress bar for each.

    Among the processes of `torchrun`, which share each optimiser step, they are trained one after
    the other.
    """
    from handful.learning import train_in_folder, train_side_by_side

    with _training_bars([recipe.step.name for recipe in recipes], shown) as report:
        if processes_of_torchrun() > 1:
            for recipe in recipes:
                train_in_folder(
                    demos,
                    recipe,
                    folder,
                    resume=resume,
                    overwrite=overwrite,
                    report=partial(report, recipe.step.name),
                )
        else:
            train_side_by_side(
                demos,
                recipes,
                folder,
                workers=workers,
                resume=resume,
                overwrite=overwrite,
                report=report,
            )


@contextmanager
def _training_bars(
    steps: Sequence[str], shown: bool
) -> Iterator[Callable[[str, StepReport], None]]:
    """A progress bar for the training of each step; yields what to tell."""
    with told_progress(console, shown) as bars:
        lines = {step: bars.add_task(escape(step), total=None, told="", start=False)
                 for step in steps}  # fmt: skip

        def tell(step: str, report: StepReport) -> None:
            told = (
                f"loss {report.loss:.2f}, energy {report.target_energy:.1f} against "
                f"{report.negative_energy:.1f}"
            )
            if report.weights:
                told += ", weights " + " ".join(f"{weight:.2f}" for weight in report.weights)
            if report.skipped:
                told += f", {report.skipped} skipped"
            bars.start_task(lines[step])
            done = report.step + 1
            bars.update(lines[step], total=report.steps, completed=done, told=told)

        yield tell


@contextmanager
def _process_group() -> Iterator[bool]:
    """Join the other processes when `torchrun` started this one; yields whether it is the first."""
    if processes_of_torchrun() == 1:
        yield True
        return
    from torch import distributed

    try:
        distributed.init_process_group("gloo")
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise OptionError(f"the processes of torchrun do not find each other: {reason}") from error
    try:
        yield distributed.get_rank() == 0
    finally:
        distributed.destroy_process_group()

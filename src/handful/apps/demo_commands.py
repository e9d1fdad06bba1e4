"""Commands that go the whole way: `handful demo` and `handful curve`."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handful.apps._options import FirstEpisode, Seed, TrainingSteps
from handful.apps._pictures import write_picture
from handful.apps.bench_commands import RayAddress, Workers, run_with_progress, show_table
from handful.apps.learn_commands import train_with_progress
from handful.errors import OptionError

if TYPE_CHECKING:
    from handful.demos import DemoSet
    from handful.learning import Recipe
    from handful.sim import SimTask

console = Console(emoji=False)

DEMONSTRATIONS = 10
FIRST_SEED = 20_000
"""Of the demo's episodes: for evaluation, and apart from those that the benchmark begins with."""


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(demo)
    app.command()(curve)


def demo(
    task: Annotated[str, typer.Option(help="mug, bowl, bottle or tidy.")] = "mug",
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("out/demo"),
    seed: Seed = 0,
    episodes: Annotated[int, typer.Option(min=1, max=10_000, help="To run at the end.")] = 20,
    steps: TrainingSteps = None,
    workers: Workers = None,
) -> None:
    """Go the whole way: demonstrate, train, let the robot try what it never saw, report.

    An oracle shows the simulated robot the task ten times. A model for each step is trained on
    that and nothing else. Then the robot gets unseen objects, half of them lying, at any height,
    among things that distract. What is done already is not done again.

    Example: `handful demo --out out/demo`

    Example: `handful demo --task bowl`

    Example: `handful demo --task tidy`
    """
    from handful.bench import BenchPlan, Executor, episode_seeds, note_command, write_report
    from handful.nn import keep_freed_memory
    from handful.sim import TASKS, Setup, task_named

    start = time.monotonic()
    chosen = task_named(task)
    keep_freed_memory()
    run = out / (chosen.name if seed == 0 else f"{chosen.name}-{seed}")
    console.rule(f"1 of 4: {DEMONSTRATIONS} demonstrations of the task {chosen.name!r}")
    demos = _demonstrated(chosen, run / "demos", seed)
    console.rule("2 of 4: training")
    train_run(demos, run / "demos", run, seed, steps)
    console.rule(f"3 of 4: {episodes} episodes with unseen objects, poses and distractors")
    seeds = episode_seeds(FIRST_SEED, episodes)
    plan = BenchPlan(run, chosen.name, (Setup.ALL.value,), seeds, stills=True)
    note_command(plan.folder, shlex.join(["handful", *sys.argv[1:]]))
    records = run_with_progress(plan, Executor(workers or min(2, os.cpu_count() or 1)))
    console.rule("4 of 4: the report")
    with console.status("Drawing") as status:
        page = write_report(run, run / "report.html", tell=lambda what: status.update(escape(what)))
    (row,) = show_table(records)
    minutes = (time.monotonic() - start) / 60
    models = " and ".join(repr(name) for name in row.step_names)
    steps_done = ", ".join(
        f"{step.name} {step.rate.successes} of {step.rate.trials}" for step in row.steps
    )
    _say(
        f"\nWhat happened, in {minutes:.0f} minutes: a robot was shown {DEMONSTRATIONS} times how "
        f"to do the task {chosen.name!r}, always with the same kind of object, standing on the "
        f"table. One model for each step ({models}) learned from that alone. Then the robot met "
        f"objects that it had never seen, lying or standing, among distractors: {steps_done}. It "
        f"finished the task {row.total.successes} times in {row.total.trials}."
    )
    _say(f"\nLook at it: {page} (open it in a browser)")
    _say("\nWhat to try next:")
    others = [name for name in TASKS if name != chosen.name]
    for line in (
        f"handful demo --task {others[0]}",
        f"handful bench {chosen.name} --run {shlex.quote(str(run))} --setup "
        "trained,instances,poses,distractors,all --workers 2",
        f"handful curve {chosen.name} --demos {shlex.quote(str(run / 'demos'))} "
        f"--run {shlex.quote(str(run))}",
        "handful import --help        # your own recordings",
    ):
        _say(f"  {line}")


def curve(
    task: Annotated[str, typer.Argument(help="mug, bowl, bottle or tidy.", show_default=False)],
    demos: Annotated[Path, typer.Option(help="A demonstration folder.", show_default=False)],
    run: Annotated[
        Path,
        typer.Option(
            "--run", help="Models and results go into its folder curve.", show_default=False
        ),
    ],
    sizes: Annotated[str, typer.Option(help="Numbers of demonstrations.")] = "1,3,5,10",
    setup: Annotated[
        str, typer.Option(help="trained, instances, poses, distractors or all.")
    ] = "all",
    episodes: Annotated[int, typer.Option(min=1, max=100_000, help="For each.")] = 50,
    first_episode: FirstEpisode = 10_000,
    seed: Seed = 0,
    steps: TrainingSteps = None,
    workers: Workers = None,
    ray: RayAddress = None,
) -> None:
    """Train on the first 1, 3, 5, 10 demonstrations, and see how success grows.

    The same command again goes on where it stopped; `handful report` draws the curve. Models of
    the run itself are used for the number of demonstrations that they were trained on.

    Example: `handful curve mug --demos out/mug_demos --run runs/mug --workers 2`
    """
    from handful.bench import (
        BenchPlan,
        Executor,
        check_sizes,
        curve_run,
        episode_seeds,
        first_demos,
        note_command,
        table_of,
    )
    from handful.demos import load_demos
    from handful.nn import keep_freed_memory
    from handful.sim import Setup, task_named

    name, kind = task_named(task).name, Setup.named(setup).value
    keep_freed_memory()
    counts = _numbers(sizes)
    check_sizes(counts)
    loaded = load_demos(demos)
    sets = {count: first_demos(loaded, count) for count in counts}
    seeds = episode_seeds(first_episode, episodes)
    rows = {}
    for count, some in sets.items():
        console.rule(f"{count} of {len(loaded)} demonstrations")
        folder = run if _was_trained(run, some, seed, steps) else curve_run(run, count)
        train_run(some, demos, folder, seed, steps)
        plan = BenchPlan(folder, name, (kind,), seeds)
        note_command(plan.folder, shlex.join(["handful", *sys.argv[1:]]))
        (rows[count],) = table_of(run_with_progress(plan, Executor(workers, ray)))
    for count, row in rows.items():
        low, high = row.total.interval
        steps_done = ", ".join(f"{step.name} {step.rate}" for step in row.steps)
        _say(
            f"{count:3d} demonstrations: {steps_done}, total {row.total} "
            f"(95%: {low:.2f} to {high:.2f})"
        )
    _say(f"Next: handful report {shlex.quote(str(run))}")


def train_run(demos: DemoSet, source: Path, run: Path, seed: int, steps: int | None) -> None:
    """Train what is missing of a run's models, one for each step."""
    from handful.learning import RunFolder

    if _was_trained(run, demos, seed, steps):
        return
    train_with_progress(demos, _recipes(demos, seed, steps), run, resume=True)
    command = shlex.join(["handful", *sys.argv[1:]])
    RunFolder(run).note_training(source, len(demos), command, {"seed": seed})


def _was_trained(run: Path, demos: DemoSet, seed: int, steps: int | None) -> bool:
    from handful.learning import RunFolder

    return all(RunFolder(run).holds(demos, one) for one in _recipes(demos, seed, steps))


def _recipes(demos: DemoSet, seed: int, steps: int | None) -> list[Recipe]:
    """One recipe for each step of the demonstrated task, in order."""
    from handful.learning import recipe_for

    return [recipe_for(demos, name, seed=seed, steps=steps) for name in demos.task.names]


def _demonstrated(task: SimTask, folder: Path, seed: int) -> DemoSet:
    """The demonstrations in a folder, or new ones."""
    from rich.progress import Progress

    from handful.demos import load_demos, save_demos
    from handful.sim import collect_demos
    from handful.viz import picture_of_demos

    if not folder.exists():
        with Progress(console=console, transient=True) as progress:
            bar = progress.add_task("demonstrating", total=DEMONSTRATIONS)
            made = collect_demos(
                task,
                DEMONSTRATIONS,
                seed,
                on_progress=lambda done, reason: progress.update(bar, completed=done),
            )
        save_demos(made, folder)
        with console.status("Drawing"):
            write_picture(picture_of_demos(made), folder / "demos.png")
    _say(f"Demonstrations: {folder}")
    return load_demos(folder)


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError as error:
        raise OptionError(f"--sizes {text!r}: need numbers like 1,3,5,10.") from error


def _say(text: str) -> None:
    console.print(escape(text), soft_wrap=True, highlight=False)

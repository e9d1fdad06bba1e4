"""Commands of the benchmark: `handful bench` and `handful report`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handful._files import atomic_write_text, make_folder
from handful.apps._cameras import ArmInView, Cameras, GraspViews, Noise, camera_rig
from handful.apps._options import FirstEpisode
from handful.apps._progress import told_progress
from handful.errors import OptionError

if TYPE_CHECKING:
    from rich.table import Table

    from handful.bench import BenchPlan, EpisodeRecord, Executor, Rate, Summary

console = Console(emoji=False)

FILE_WIDTH = 160
"""Columns of a table that is written to a file or a pipe."""

ALL = "all"

RunFolderOption = Annotated[
    Path,
    typer.Option(
        "--run",
        help="Folder of the trained models (`handful train`); results go into its folder bench.",
        show_default=False,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="Processes at once.", show_default="1; on Ray all cores"),
]
RayAddress = Annotated[
    str | None, typer.Option("--ray", help="Run on a Ray cluster: auto, or HOST:PORT.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(bench)
    app.command()(report)


def bench(
    task: Annotated[
        str, typer.Argument(help="mug, bowl, bottle, tidy, or all of them.", show_default=False)
    ],
    run: RunFolderOption,
    setup: Annotated[
        str,
        typer.Option(help="Comma-separated: trained, instances, poses, distractors, all."),
    ] = "all",
    episodes: Annotated[int, typer.Option(min=1, max=100_000, help="Of each setup.")] = 50,
    seed: FirstEpisode = 10_000,
    policy: Annotated[
        str, typer.Option(help="model, or for comparison oracle or random.")
    ] = "model",
    samples: Annotated[
        int, typer.Option(min=1, max=10_000, help="Poses that a model is asked for.")
    ] = 100,
    gripper: Annotated[
        str,
        typer.Option(
            help="Name of the hand that the robot carries; models are retargeted to it.",
            show_default="the one of the demonstrations, or else simulated",
        ),
    ] = "",
    objects: Annotated[
        Path | None,
        typer.Option(help="Folder of meshes (metres, z up) to use as the unseen instances."),
    ] = None,
    cameras: Cameras = 3,
    grasp_views: GraspViews = 6,
    noise: Noise = "none",
    arm_in_view: ArmInView = False,
    look_ahead: Annotated[
        bool, typer.Option(help="Choose poses of models with the next step in mind.")
    ] = True,
    least_confidence: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Poses of models with lower confidence are not executed; 0 executes whatever is "
            "best.",
            show_default="that of run_task",
        ),
    ] = None,
    segmented: Annotated[
        bool,
        typer.Option(
            help="Tell models that cannot find the object themselves (ndf) which points are its."
        ),
    ] = True,
    workers: Workers = None,
    ray: RayAddress = None,
    stills: Annotated[
        bool, typer.Option("--stills", help="Draw the episodes that failed.")
    ] = False,
    videos: Annotated[
        bool, typer.Option("--videos", help="Film the episodes that failed.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Drop the results of earlier runs first.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write table and episodes to this file.")
    ] = None,
) -> None:
    """Let trained models do a task in the simulated world, and count how often they succeed.

    Every episode is stored as it ends. The same command again runs only what is missing; more
    `--episodes` add to those that are there. With the task `all`, the folder holds one run for
    each task: RUN/mug, RUN/bowl and so on; tasks without a run are left out.

    Example: `handful bench mug --run runs/mug --setup all --episodes 100 --workers 2`

    Example: `handful bench mug --run runs/mug --gripper simulated-long`

    Example: `handful bench mug --run runs/mug --cameras 1 --grasp-views 2 --noise usual
    --arm-in-view`

    Example: `handful bench all --run runs --setup trained,instances,poses,distractors,all`
    """
    from handful.bench import BenchPlan, Executor, episode_seeds, kind_of_seeds, note_command
    from handful.nn import keep_freed_memory
    from handful.policy import LEAST_CONFIDENCE
    from handful.sim import Setup, task_named

    names = _tasks_of(run, policy) if task == ALL else [task_named(task).name]
    setups = tuple(Setup.named(word.strip()).value for word in setup.split(","))
    seeds = episode_seeds(seed, episodes)
    rig = camera_rig(cameras, grasp_views, noise, arm_in_view)
    plans = [
        BenchPlan(
            run / name if task == ALL else run, name, setups, seeds, policy, objects, samples,
            stills, videos, gripper, rig, look_ahead,
            LEAST_CONFIDENCE if least_confidence is None else least_confidence, segmented,
        )
        for name in names
    ]  # fmt: skip
    if objects is not None:
        _tell_meshes(objects, names)
    console.print(
        f"Episodes of each setup: {episodes}, seeds {seeds[0]} to {seeds[-1]} "
        f"({kind_of_seeds(seeds)})."
    )
    hands = sorted({plan.hand.name for plan in plans})
    console.print(f"Hand of the robot: {', '.join(hands)}.")
    console.print(f"Cameras: {escape(rig.words)}.")
    keep_freed_memory()
    records: list[EpisodeRecord] = []
    for plan in plans:
        note_command(plan.folder, shlex.join(["handful", *sys.argv[1:]]))
        records += run_with_progress(plan, Executor(workers, ray), fresh)
    plain = {
        (plan.task, name) for plan in plans for name in setups if plan.conditions(name).is_plain
    }
    other_hands = {plan.task: plan.other_hand for plan in plans}
    rows = show_table(records, other_hands, plain, rig.special)
    if json_file is not None:
        names_of_hands = {plan.task: plan.hand.name for plan in plans}
        _write_json(json_file, rows, records, names_of_hands, rig.words)
    for plan in plans:
        console.print(escape(f"Episodes: {plan.folder}"), soft_wrap=True)
    console.print(escape(f"Next: handful report {shlex.quote(str(run))}"), soft_wrap=True)


def report(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run that was benchmarked or only trained, a folder of runs, or an evaluation.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The page to write; RUN/report.html if left out. Markdown goes beside."),
    ] = None,
    pictures: Annotated[
        bool,
        typer.Option(help="Draw scenes with sampled poses and the key field; takes a minute."),
    ] = True,
) -> None:
    """Write one page about a run: results next to the paper's, training, pictures, failures.

    A run that was not benchmarked has one page about how well it knows its demonstrations, and an
    evaluation (`handful evaluate`) one about how well it does on others.

    Example: `handful report runs/mug`
    """
    from handful.bench import was_benchmarked, write_report
    from handful.evaluation import is_evaluation, is_trained_only, write_evaluation_page

    page = out or run / "report.html"
    if page.suffix.lower() != ".html":
        raise OptionError(f"{page}: the report is written as .html (and .md beside it).")
    judged = is_evaluation(run) or (is_trained_only(run) and not was_benchmarked(run))
    write = write_evaluation_page if judged else write_report
    with console.status("Writing the report") as status:
        written = write(run, page, pictures, lambda what: status.update(escape(what)))
    console.print(escape(f"Report: {written}"), soft_wrap=True)
    console.print(escape(f"Markdown: {written.with_suffix('.md')}"), soft_wrap=True)


# --- progress and tables -----------------------------------------------------------------------


def run_with_progress(
    plan: BenchPlan, executor: Executor, fresh: bool = False
) -> list[EpisodeRecord]:
    """Run a plan with a progress bar."""
    from handful.bench import run_bench

    with _progress(plan.task, len(plan.setups) * len(plan.seeds)) as tell:
        return run_bench(plan, executor, tell, fresh)


@contextmanager
def _progress(task: str, total: int) -> Iterator[Callable[[EpisodeRecord, int, int], None]]:
    """A bar with successes so far and the time left."""
    with told_progress(console) as bar:
        line = bar.add_task(task, total=total, told="")
        good = bad = 0

        def tell(record: EpisodeRecord, done: int, of: int) -> None:
            nonlocal good, bad
            good, bad = good + record.success, bad + (record.begun and not record.success)
            if not record.success:
                what = f"{record.setup}, seed {record.seed}: {record.outcome}"
                bar.console.print(escape(f"{record.task}, {what} ({record.reason})"))
            bar.update(line, completed=done, total=of, told=f"{good} succeeded, {bad} failed")

        yield tell


def show_table(
    records: Sequence[EpisodeRecord],
    other_hands: Mapping[str, str] | None = None,
    plain: Collection[tuple[str, str]] | None = None,
    rig: str = "",
) -> list[Summary]:
    """Print a table of success rates for each task, and the reasons of failures.

    Args:
        records: The episodes.
        other_hands: By the name of the task, the name of the hand that the robot carried if it was
            not the one of the models.
        plain: Tasks and setups that may be compared with the paper: models, with their own hand,
            the task's own objects and the default cameras. All of them if not given.
        rig: The cameras in words; empty for the default ones.

    Returns:
        The rows of the tables.
    """
    from handful.bench import by_steps, table_of

    rows = [
        row if plain is None or (row.task, row.setup) in plain else replace(row, paper=None)
        for row in table_of(records)
    ]
    hands = other_hands or {}
    for task in dict.fromkeys(row.task for row in rows):
        title = f"Success: {task}" + (f", hand {hands[task]}" if hands.get(task) else "")
        title += f", {rig}" if rig else ""
        for group in by_steps([row for row in rows if row.task == task], lambda row: row):
            _wide_enough().print(_table(group, title))
    console.print(
        "A step's rate counts among the episodes that came to it. In brackets: the paper. Below "
        "each rate: its 95% interval."
    )
    for row in rows:
        for kind, count in row.failures:
            console.print(escape(f"{row.task}, {row.setup}: {count} x {kind}"))
        if row.void:
            console.print(f"{row.task}, {row.setup}: {row.void} episodes could not begin.")
        for step in row.steps:
            if step.redirected:
                words = f"looking ahead chose another pose in {step.redirected} episodes"
                console.print(escape(f"{row.task}, {row.setup}, {step.name}: {words}."))
    return rows


def _wide_enough() -> Console:
    """The console, or where no terminal sets a width, one for tables of many steps."""
    return console if console.is_terminal else Console(emoji=False, width=FILE_WIDTH)


def _table(rows: Sequence[Summary], title: str) -> Table:
    """A table of rows whose tasks have the same steps."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from handful.bench import joined_seconds, joined_skips, paper_rate

    table = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD)
    for name in ("setup", "n", *rows[0].step_names, "total", "seconds", "skipped"):
        table.add_column(escape(name), overflow="fold")
    for row in rows:
        table.add_row(
            escape(row.setup),
            str(row.total.trials),
            *(_rate(step.rate, paper_rate(row, step.name)) for step in row.steps),
            _rate(row.total, paper_rate(row)),
            joined_seconds(row, between="+"),
            joined_skips(row, between="+"),
        )
    return table


def _rate(rate: Rate, paper: float | None) -> str:
    if rate.value is None:
        return "-"
    low, high = rate.interval
    beside = "" if paper is None else f" ({paper:.2f})"
    return f"[bold]{rate.value:.2f}[/bold]{beside}\n{low:.2f}-{high:.2f}"


def _write_json(
    path: Path,
    rows: Sequence[Summary],
    records: Sequence[EpisodeRecord],
    hands: Mapping[str, str],
    rig: str,
) -> None:
    from handful.bench import table_as_json

    make_folder(path.parent)
    atomic_write_text(path, table_as_json(rows, records, hands, rig))
    console.print(escape(f"Table and episodes: {path}"), soft_wrap=True)


def _tell_meshes(folder: Path, tasks: Sequence[str]) -> None:
    """Read meshes once, before the workers do, and say which cannot be used."""
    from handful.apps.sim_commands import load_objects
    from handful.sim import task_named

    for task in tasks:
        load_objects(folder, task_named(task))


def _tasks_of(folder: Path, policy: str) -> list[str]:
    """The tasks that have a run in a folder; for policies without models all tasks."""
    from handful.sim import TASKS

    names = [name for name in sorted(TASKS) if policy != "model" or (folder / name).is_dir()]
    if not names:
        raise OptionError(
            f"{folder}: has no run of a task: need a folder named after one, for example "
            f"{folder / next(iter(TASKS))}."
        )
    return names

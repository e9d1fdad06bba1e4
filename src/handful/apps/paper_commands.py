"""The command `handful paper`: every table of the paper beside ours."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handful.apps._options import FirstEpisode, Seed, TrainingSteps
from handful.apps.bench_commands import RayAddress, Workers, run_with_progress
from handful.apps.learn_commands import train_with_progress
from handful.errors import OptionError

if TYPE_CHECKING:
    from handful.bench import Executor
    from handful.bench.paper import Contender, PaperFolder, Study

console = Console(emoji=False)

QUICK_STEPS, QUICK_EPISODES = 60, 2
"""Of a quick look: models that know next to nothing, and every part of the way."""


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(paper)


def paper(
    table: Annotated[
        str,
        typer.Argument(
            help="sota, default, ablation, demonstrations, ndf, curve, or all.", show_default=False
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Folder of demonstrations, runs and the page.")
    ] = Path("runs/paper"),
    tasks: Annotated[
        str, typer.Option(help="Some of the tasks of the table.", show_default="all of them")
    ] = "",
    methods: Annotated[
        str, typer.Option(help="Some of the methods of the table.", show_default="all of them")
    ] = "",
    episodes: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Of each cell.", show_default="50")
    ] = None,
    first_episode: FirstEpisode = 10_000,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"A look at the whole way: the first task, {QUICK_STEPS} training steps, "
            f"{QUICK_EPISODES} episodes of each cell.",
        ),
    ] = False,
    steps: TrainingSteps = None,
    seed: Seed = 0,
    workers: Workers = None,
    ray: RayAddress = None,
) -> None:
    """Collect, train and run what a table of the paper shows, and print it beside ours.

    What is there already is not done again, to the episode: the same command goes on where it
    stopped. Tables share demonstrations and models. The page is written after every model.

    Example: `handful paper sota --tasks mug --episodes 25 --workers 2`

    Example: `handful paper all --quick --out out/paper`
    """
    from handful.bench import Executor, episode_seeds
    from handful.bench.paper import PaperFolder, chosen_studies, write_paper_page

    studies = [_limited(one, tasks, methods, quick) for one in chosen_studies(table)]
    count = episodes or (QUICK_EPISODES if quick else 50)
    seeds = episode_seeds(first_episode, count)
    folder = PaperFolder(out, seed, steps if steps or not quick else QUICK_STEPS)
    command = shlex.join(["handful", *sys.argv[1:]])
    executor, page = Executor(workers, ray), out
    for study in studies:
        console.rule(escape(study.title))
        for contender in study.contenders:
            for task in study.tasks:
                _run_cell(folder, study, contender, task, seeds, executor, workers)
                page = write_paper_page(folder, studies, command)
    _show(folder, studies)
    console.print(escape(f"Page: {page}"), soft_wrap=True)


def _limited(study: Study, tasks: str, methods: str, quick: bool) -> Study:
    """A study with some of its tasks and methods."""
    wanted = _words(tasks, study.tasks, "task") or study.tasks
    if quick and not tasks:
        wanted = wanted[:1]
    names = tuple(dict.fromkeys(one.method for one in study.contenders))
    kept = _words(methods, names, "method") or names
    chosen = tuple(one for one in study.contenders if one.method in kept)
    return replace(study, tasks=tuple(wanted), contenders=chosen)


def _words(text: str, valid: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """The names in a list with commas that a study has.

    Raises:
        OptionError: It has none of them.
    """
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    found = tuple(word for word in valid if word in words)
    if words and not found:
        raise OptionError(f"no {kind} of the table is named {text!r}: choose of {list(valid)}.")
    return found


def _run_cell(
    folder: PaperFolder,
    study: Study,
    contender: Contender,
    task: str,
    seeds: range,
    executor: Executor,
    workers: int | None,
) -> None:
    """Collect, train and run one contender of a study in one task; what is missing of it."""
    from handful.bench import BenchPlan, note_command
    from handful.learning import RunFolder

    with console.status("") as status:
        demos = folder.demos(task, contender, lambda what: status.update(escape(what)))
    run = folder.run(task, contender)
    recipes = folder.recipes(demos, contender)
    command = shlex.join(["handful", *sys.argv[1:]])
    console.print(escape(f"{task}: {contender.label} ({run})"), soft_wrap=True)
    if not all(RunFolder(run).holds(demos, one) for one in recipes):
        train_with_progress(demos, recipes, run, workers=workers, resume=True)
        source = folder.demos_folder(task, contender.variant(task))
        options = {"method": contender.method, "preset": contender.preset, "seed": folder.seed}
        RunFolder(run).note_training(source, len(demos), command, options)
    plan = BenchPlan(run, task, study.setups, seeds, segmented=contender.segmented)
    note_command(plan.folder, command)
    run_with_progress(plan, executor)


def _show(folder: PaperFolder, studies: list[Study]) -> None:
    """The tables in the terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    from handful.bench.paper import study_blocks
    from handful.bench.report import Heading, Table

    for study in studies:
        title = ""
        for block in study_blocks(folder, study):
            if isinstance(block, Heading):
                title = f"{study.title}: {block.text}" if block.level > 2 else block.text
            elif isinstance(block, Table):
                table = RichTable(title=escape(title), title_justify="left", box=SIMPLE_HEAD)
                for name in block.head:
                    table.add_column(escape(name), overflow="fold")
                for row in block.rows:
                    table.add_row(*(escape("\n".join(filter(None, (cell.text, cell.note))))
                                    for cell in row))  # fmt: skip
                wide = console if console.is_terminal else Console(emoji=False, width=160)
                wide.print(table)

"""Tables of the paper beside ours, on one page."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import safe_open

import handful
from handful._files import make_folder
from handful._locks import alone
from handful.bench.paper._studies import Contender, Study
from handful.bench.paper._workspace import PaperFolder
from handful.bench.report import (
    Block,
    Cell,
    Code,
    Heading,
    Paragraph,
    Rate,
    Summary,
    Table,
    table_of,
    write_markdown,
    write_page,
)
from handful.bench.run import FOLDER, EpisodeRecord, read_episodes
from handful.learning import RunFolder
from handful.sim import task_named

PAGE = "paper.html"
WEIGHTS = "weights.safetensors"


def write_paper_page(folder: PaperFolder, studies: Sequence[Study], command: str) -> Path:
    """Write the page of what was run so far.

    Args:
        folder: Of the studies.
        studies: Whose tables are shown.
        command: That was given.

    Returns:
        The page; a Markdown file is beside it.
    """
    blocks: list[Block] = [
        Heading("The paper's tables, and ours", 1),
        Paragraph(
            "In brackets: what the paper reports. Below each rate: its 95% interval (Wilson). A "
            "step's rate counts among the episodes that came to it. Seconds: median time of "
            "inference of each step on one core here; in brackets on the paper's GPU. A dash: not "
            "run, or not reported."
        ),
    ]
    for study in studies:
        blocks += study_blocks(folder, study)
    blocks += _costs(folder, studies)
    blocks += [
        Heading("Run it again"),
        Code(command),
        Paragraph(
            f"handful {handful.__version__}, PyTorch {torch.__version__}, Python "
            f"{platform.python_version()}, {platform.machine()}; seed of demonstrations and "
            f"trainings: {folder.seed}."
        ),
    ]
    if folder.steps is not None:
        blocks.insert(
            1, Paragraph(f"A quick look: every model was trained for {folder.steps} steps only.")
        )
    page = folder.path / PAGE
    make_folder(page.parent)
    with alone(page.with_name(f".{page.name}.lock"), str(page)):
        write_page(blocks, page)
        write_markdown(blocks, page.with_suffix(".md"))
    return page


def study_blocks(folder: PaperFolder, study: Study) -> list[Block]:
    """Heading and table of one study."""
    blocks: list[Block] = [Heading(study.title)]
    for task in study.tasks:
        names = task_named(task).task.names
        head = ("setup", "method", *names, "total", "seconds", "n", "seeds")
        rows = [
            _row(folder, study, contender, task, setup, names)
            for setup in study.setups
            for contender in study.contenders
        ]
        blocks += [Heading(task[:1].upper() + task[1:], 3), Table(head, tuple(rows))]
    return blocks


def _row(
    folder: PaperFolder,
    study: Study,
    contender: Contender,
    task: str,
    setup: str,
    names: tuple[str, ...],
) -> tuple[Cell, ...]:
    """Ours and the paper's rates of one contender."""
    paper, ours = contender.rates.get((task, setup)), _summary(folder, contender, task, setup)
    cells = [Cell(setup), Cell(contender.label)]
    for name in names:
        rate = None if ours is None else ours.step(name).rate
        cells.append(_rate(rate, None if paper is None else paper.steps.get(name)))
    cells.append(
        _rate(None if ours is None else ours.total, None if paper is None else paper.total)
    )
    seconds = [None if ours is None else ours.step(name).seconds for name in names]
    told = " + ".join("-" if one is None else f"{one:.2f}" for one in seconds)
    reported = contender.seconds.get(task, {}) if setup == "all" else {}
    if all(name in reported for name in names):
        told += " (" + " + ".join(f"{reported[name]:.1f}" for name in names) + ")"
    count = 0 if ours is None else ours.total.trials
    seeds = "-" if ours is None else f"{ours.seeds[0]} to {ours.seeds[1]}"
    return (*cells, Cell(told), Cell(str(count)), Cell(seeds))


def _rate(rate: Rate | None, paper: float | None) -> Cell:
    beside = "" if paper is None else f" ({paper:.2f})"
    if rate is None or rate.value is None:
        return Cell(f"-{beside}")
    low, high = rate.interval
    return Cell(f"{rate}{beside}", f"{low:.2f} to {high:.2f}")


def _summary(folder: PaperFolder, contender: Contender, task: str, setup: str) -> Summary | None:
    """What the episodes of a contender say; None if none has been run."""
    records: list[EpisodeRecord] = []
    for path in sorted((folder.run(task, contender) / FOLDER).glob(f"{task}-{setup}*.jsonl")):
        conditions, some = read_episodes(path)
        told = conditions.segmented == contender.segmented
        if conditions.setup == setup and conditions.policy == "model" and told:
            records += some
    return table_of(records)[0] if records else None


def _costs(folder: PaperFolder, studies: Sequence[Study]) -> list[Block]:
    """Training time, parameters and steps of each model that was trained."""
    rows, seen = [], set()
    for study in studies:
        for contender in study.contenders:
            for task in study.tasks:
                path = folder.run(task, contender)
                if path in seen or not path.is_dir():
                    continue
                seen.add(path)
                rows.append(_cost(RunFolder(path), task, contender))
    if not rows:
        return []
    head = ("task", "method", "demonstrations", "parameters", "steps", "minutes of training")
    return [Heading("What each method costs"), Table(head, tuple(rows))]


def _cost(run: RunFolder, task: str, contender: Contender) -> tuple[Cell, ...]:
    names = task_named(task).task.names
    trained = [run.trained(name) for name in names]
    parameters = [_parameters(run.model(name) / WEIGHTS) for name in names]
    told = f"{contender.demonstrations} ({contender.variant(task)})"
    minutes = ["-" if one.seconds is None else f"{one.seconds / 60:.1f}" for one in trained]
    steps = ["-" if one.steps is None else str(one.steps) for one in trained]
    return (
        Cell(task), Cell(contender.label), Cell(told), Cell(" + ".join(parameters)),
        Cell(" + ".join(steps)), Cell(" + ".join(minutes)),
    )  # fmt: skip


def _parameters(weights: Path) -> str:
    """Number of parameters in a file of weights, in thousands."""
    if not weights.is_file():
        return "-"
    with safe_open(weights, framework="pt") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    return f"{sum(math.prod(shape) for shape in shapes) / 1000:.0f} k"

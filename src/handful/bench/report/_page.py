"""The report: one page about a run, or about the runs of all tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import handful
from handful._files import make_folder
from handful._locks import alone
from handful.bench.report._charts import success_chart
from handful.bench.report._document import (
    Block,
    Cards,
    Cell,
    Code,
    Heading,
    Paragraph,
    Picture,
    Table,
    write_markdown,
    write_page,
)
from handful.bench.report._paper import SECONDS, TRAINING_HOURS
from handful.bench.report._results import Result, RunResults, read_runs
from handful.bench.report._run_sections import about_run
from handful.bench.report._statistics import Rate
from handful.bench.report._tables import by_steps, joined_seconds, joined_skips, paper_rate


def write_report(
    folder: Path,
    page: Path,
    pictures: bool = True,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Write the report of a run, or of the runs in a folder.

    Args:
        folder: A run's folder, or a folder of runs.
        page: The HTML file to write; a Markdown file goes beside it.
        pictures: Draw what the models see; loads them and takes a minute.
        tell: Told what is being done.

    Returns:
        The page.

    Raises:
        BenchError: Nothing was benchmarked there.
        FileFormatError: A file of the run is not what it should be, or the page cannot be written.
        BusyError: Another process writes this page.
    """
    runs = read_runs(folder)
    say = tell or (lambda what: None)
    blocks = [*_overview(runs)]
    for run in runs:
        blocks += about_run(run, pictures, say, alone=len(runs) == 1)
    blocks += _again(runs)
    make_folder(page.parent)
    with alone(page.with_name(f".{page.name}.lock"), str(page)):
        write_page(blocks, page)
        write_markdown(blocks, page.with_suffix(".md"))
    return page


# --- the top of the page -----------------------------------------------------------------------


def _overview(runs: Sequence[RunResults]) -> list[Block]:
    results = [result for run in runs for result in run.results]
    tasks = sorted({task for run in runs for task in run.tasks})
    title = " and ".join(tasks)
    blocks: list[Block] = [
        Heading(f"{title[:1].upper()}{title[1:]}: learned from demonstrations", 1),
        Paragraph(
            "Each episode runs in simulated physics. In each step of the task the robot looks, the "
            "model of the step proposes poses, and the first feasible one is executed. An episode "
            "succeeds if at its end the targets alone hold the objects for two seconds. The rate "
            "of a step counts among the episodes that came to it."
        ),
    ]
    cards = _cards(runs)
    if cards:
        blocks.append(Cards(tuple(cards)))
    if results:
        chart = success_chart(
            [(f"{one.conditions.task}, {one.label}", one.summary) for one in results]
        )
        blocks.append(Picture("success", ".svg", chart.encode()))
        blocks += [_table(group) for group in by_steps(results, lambda one: one.summary)]
    looked_at = sorted({result.kind_of_seeds for result in results} - {"evaluation"})
    if looked_at:
        blocks.append(
            Paragraph(
                f"Not a fair judgement: some rows are of seeds for {' and '.join(looked_at)}."
            )
        )
    return blocks


def _cards(runs: Sequence[RunResults]) -> list[tuple[str, str, str]]:
    cards = []
    for run in runs:
        for result in run.results:
            if result.conditions.setup == "all" and result.conditions.policy == "model":
                cards.append(_card_of_success(result))
        cards += _card_of_training(run, alone=len(runs) == 1)
    if len(runs) == 1:
        cards += _card_of_inference(runs[0])
        count = runs[0].training.demonstrations.count
        if count is not None:
            cards.append((str(count), "demonstrations", "no pre-training, no segmentation"))
    return cards


def _card_of_success(result: Result) -> tuple[str, str, str]:
    row, rate = result.summary, result.summary.total
    low, high = rate.interval
    note = f"{rate.successes} of {rate.trials}, 95%: {low:.2f} to {high:.2f}"
    if row.paper is not None:
        note += f"; paper {row.paper.total:.2f}"
    return str(rate), ", ".join([f"{row.task}: all unseen", *result.special]), note


def _card_of_training(run: RunResults, alone: bool) -> list[tuple[str, str, str]]:
    """Minutes of training of the steps that were trained."""
    seconds = {step: run.trained(step).seconds for step in run.steps}
    known = {step: one for step, one in seconds.items() if one is not None}
    if not known:
        return []
    minutes = " + ".join(f"{one / 60:.1f}" for one in known.values())
    note = " + ".join(known)
    if all(step in TRAINING_HOURS for step in known):
        hours = " + ".join(f"{TRAINING_HOURS[step]:g}" for step in known)
        note += f"; paper: {hours} hours on a GPU"
    return [(minutes, "minutes of training" + ("" if alone else f", {run.tasks[0]}"), note)]


def _card_of_inference(run: RunResults) -> list[tuple[str, str, str]]:
    rows = [result.summary for result in run.results if result.conditions.policy == "model"]
    medians = {}
    for name in run.steps:
        steps = [step for row in rows for step in row.steps if step.name == name]
        seconds = [step.seconds for step in steps if step.seconds is not None]
        if seconds:
            medians[name] = float(np.median(seconds))
    if not medians:
        return []
    note = f"{' + '.join(medians)}, median, one core"
    paper = SECONDS.get(run.tasks[0], {})
    if all(name in paper for name in medians):
        note += f"; paper: {' + '.join(f'{paper[name]:g}' for name in medians)} s on a GPU"
    number = " + ".join(f"{median:.2f}" for median in medians.values())
    return [(f"{number} s", "inference", note)]


def _table(results: Sequence[Result]) -> Table:
    """A table of results whose tasks have the same steps."""
    rows = []
    for result in results:
        one = result.summary
        first, last = one.seeds
        rows.append(
            (
                Cell(one.task),
                Cell(result.label),
                Cell(str(one.total.trials), f"seeds {first} to {last}, {result.kind_of_seeds}"),
                *(_rate_cell(step.rate, paper_rate(one, step.name)) for step in one.steps),
                _rate_cell(one.total, paper_rate(one), judged=True),
                Cell(f"{joined_seconds(one)} s"),
                Cell(joined_skips(one, digits=2)),
            )
        )
    steps = results[0].summary.step_names
    head = ("task", "setup", "episodes", *steps, "total", "inference", "poses skipped")
    return Table(head, tuple(rows))


def _rate_cell(rate: Rate, paper: float | None, judged: bool = False) -> Cell:
    if rate.value is None:
        return Cell("-")
    low, high = rate.interval
    note = f"{low:.2f} to {high:.2f}" + (f", paper {paper:.2f}" if paper is not None else "")
    tone = ""
    if judged and paper is not None:
        tone = "good" if rate.value >= paper - 1e-9 else "bad"
    return Cell(str(rate), note, tone)


# --- the bottom of the page --------------------------------------------------------------------


def _again(runs: Sequence[RunResults]) -> list[Block]:
    lines: list[str] = []
    facts: dict[str, str] = {"handful (report)": handful.__version__}
    for run in runs:
        lines += [run.training.command, *(one.command for one in run.commands)]
        for key, version in run.training.versions.items():
            facts[f"{key} (training)"] = version
        for entry in run.commands:
            noted = {"handful": entry.handful, "python": entry.python, "machine": entry.machine}
            facts |= {f"{key} (benchmark)": value for key, value in noted.items() if value}
        for step in run.steps:
            seed = run.trained(step).seed
            if seed is not None:
                facts[f"{', '.join(run.tasks)}: seed of training, {step}"] = str(seed)
        for result in run.results:
            first, last = result.summary.seeds
            what = f"{result.conditions.task}, {result.label}: seeds of episodes"
            models = f", models {result.conditions.models}" if result.conditions.models else ""
            facts[what] = f"{first} to {last} ({result.kind_of_seeds}){models}"
    rows = tuple((Cell(name), Cell(value)) for name, value in facts.items())
    given = "\n".join(dict.fromkeys(line for line in lines if line)) or "(no command was kept)"
    return [Heading("How to make this again"), Code(given), Table(("", ""), rows)]

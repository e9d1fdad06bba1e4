"""The report: one page about a run, or about the runs of all tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import handful
from handful.bench._charts import Line, line_chart, success_chart
from handful.bench._curve import CurvePoint
from handful.bench._document import (
    Block,
    Cards,
    Cell,
    Code,
    Gallery,
    Heading,
    Paragraph,
    Picture,
    Table,
    write_markdown,
    write_page,
)
from handful.bench._paper import SECONDS, TRAINING_HOURS
from handful.bench._pictures import jpeg, pictures_of_models
from handful.bench._policies import STEPS
from handful.bench._results import Result, RunResults, read_runs
from handful.bench._statistics import Rate

MOST_FAILURES = 24
"""Failures of a run that are shown; the others are only counted."""


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
    """
    runs = read_runs(folder)
    say = tell or (lambda what: None)
    blocks = [*_overview(runs)]
    for run in runs:
        blocks += _about_run(run, pictures, say, alone=len(runs) == 1)
    blocks += _again(runs)
    page.parent.mkdir(parents=True, exist_ok=True)
    write_page(blocks, page)
    write_markdown(blocks, page.with_suffix(".md"))
    return page


# --- the top of the page -----------------------------------------------------------------------


def _overview(runs: Sequence[RunResults]) -> list[Block]:
    results = [result for run in runs for result in run.results]
    tasks = sorted({task for run in runs for task in run.tasks})
    blocks: list[Block] = [
        Heading(f"{' and '.join(tasks).capitalize()}: pick and place from demonstrations", 1),
        Paragraph(
            "Each episode runs in simulated physics: the robot looks, the pick model proposes "
            "poses, the first feasible one is executed; then the same with the place model. An "
            "episode succeeds if the target alone holds the object for two seconds."
        ),
        Cards(tuple(_cards(runs))),
    ]
    if results:
        chart = success_chart(
            [(f"{one.conditions.task}, {one.label}", one.summary) for one in results]
        )
        blocks += [Picture("success.svg", chart.encode()), _table(results)]
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
                rate = result.summary.total
                low, high = rate.interval
                paper = result.summary.paper
                note = f"{rate.successes} of {rate.trials}, 95%: {low:.2f} to {high:.2f}"
                if paper is not None:
                    note += f"; paper {paper.total:.2f}"
                label = f"{result.conditions.task}: all unseen"
                if result.conditions.objects:
                    label += f", {result.label.split(', ')[1]}"
                cards.append((str(rate), label, note))
        times = [_seconds_of_training(run, step) for step in STEPS]
        if all(times):
            minutes = " + ".join(f"{(time or 0) / 60:.1f}" for time in times)
            paper_hours = " + ".join(f"{hours:g}" for hours in TRAINING_HOURS)
            label = "minutes of training" + (f", {run.tasks[0]}" if len(runs) > 1 else "")
            cards.append((minutes, label, f"pick + place; paper: {paper_hours} hours on a GPU"))
    if len(runs) == 1:
        cards += _card_of_inference(runs[0])
        count = _dig(runs[0].training, "demonstrations", "count")
        if isinstance(count, int):
            cards.append((str(count), "demonstrations", "no pre-training, no segmentation"))
    return cards


def _card_of_inference(run: RunResults) -> list[tuple[str, str, str]]:
    summaries = [result.summary for result in run.results if result.conditions.policy == "model"]
    picks = [one.pick_seconds for one in summaries if one.pick_seconds is not None]
    places = [one.place_seconds for one in summaries if one.place_seconds is not None]
    if not picks or not places:
        return []
    paper = SECONDS.get(run.tasks[0])
    note = "pick + place, median, one core"
    if paper is not None:
        note += f"; paper: {paper[0]:g} + {paper[1]:g} s on a GPU"
    number = f"{np.median(picks):.2f} + {np.median(places):.2f} s"
    return [(number, "inference", note)]


def _table(results: Sequence[Result]) -> Table:
    rows = []
    for result in results:
        one, paper = result.summary, result.summary.paper
        first, last = one.seeds
        rows.append(
            (
                Cell(one.task),
                Cell(result.label),
                Cell(str(one.total.trials), f"seeds {first} to {last}, {result.kind_of_seeds}"),
                _rate_cell(one.pick, paper.pick if paper else None),
                _rate_cell(one.place, paper.place if paper else None),
                _rate_cell(one.total, paper.total if paper else None, judged=True),
                Cell(f"{_short(one.pick_seconds)} + {_short(one.place_seconds)} s"),
                Cell(f"{_short(one.pick_skips)} + {_short(one.place_skips)}"),
            )
        )
    head = ("task", "setup", "episodes", "pick", "place", "total", "inference", "poses skipped")
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


# --- one run -----------------------------------------------------------------------------------


def _about_run(
    run: RunResults, pictures: bool, tell: Callable[[str], None], alone: bool
) -> list[Block]:
    name = "" if alone else f" ({', '.join(run.tasks)})"
    blocks: list[Block] = []
    blocks += _demonstrations(run, name)
    blocks += _training(run, name)
    if pictures and all((run.folder / step).is_dir() for step in STEPS):
        drawn = pictures_of_models(run.folder, run.tasks[0], tell)
        if drawn:
            blocks += [
                Heading(f"What the models see{name}"),
                Paragraph(
                    "Poses that the models propose, and the key field that they compare with: its "
                    "type-0 part as colours, its type-1 part as arrows. Like colours mean like "
                    "places; they stay with the object when it lies, and the arrows turn with it."
                ),
                Gallery(tuple(drawn)),
            ]
    blocks += _learning_curve(run, name)
    blocks += _failures(run, name)
    return blocks


def _demonstrations(run: RunResults, name: str) -> list[Block]:
    folder = _dig(run.training, "demonstrations", "folder")
    picture = Path(str(folder)) / "demos.png"
    if not folder or not picture.is_file():
        return []
    with Image.open(picture) as image:
        shown = jpeg(f"{'-'.join(run.tasks)}-demonstrations.jpg", image, str(folder))
    return [Heading(f"What was demonstrated{name}"), shown]


def _training(run: RunResults, name: str) -> list[Block]:
    charts = []
    for step in STEPS:
        log = run.training_log(step)
        if log:
            charts += _charts_of_training(log, step, "-".join(run.tasks))
    if not charts:
        return []
    return [
        Heading(f"Training{name}"),
        Paragraph(
            "Each point is one step; the strong lines are running medians. Training works when "
            "the energy of demonstrated poses comes near that of all poses that compete with them, "
            "taken together as a soft minimum: the gap between the two is about the loss."
        ),
        Gallery(tuple(charts)),
    ]


def _charts_of_training(log: Sequence[dict[str, Any]], step: str, name: str) -> list[Picture]:
    at = np.arange(1, len(log) + 1, dtype=np.float64)
    window = max(5, len(log) // 25)

    def line(label: str, field: str) -> Line:
        values = [entry.get(field) for entry in log]
        numbers = [float(one) if isinstance(one, int | float) else np.nan for one in values]
        return Line(label, at, np.array(numbers), smooth=window)

    charts = [
        ("loss", "loss and likelihood", [line("loss", "loss"), line("-log P", "likelihood")]),
        (
            "energies",
            "energies",
            [line("demonstrated", "target_energy"), line("competing", "negative_energy")],
        ),
    ]
    return [
        Picture(
            f"{name}-{step}-{file}.svg",
            line_chart(lines, f"{step}: {title}", "training step").encode(),
        )
        for file, title, lines in charts
        if any(np.isfinite(one.y).any() for one in lines)
    ]


def _learning_curve(run: RunResults, name: str) -> list[Block]:
    if not run.curve:
        return []
    return [
        Heading(f"Learning curve{name}"),
        Paragraph("Success against the number of demonstrations, with 95% intervals."),
        Picture(f"{'-'.join(run.tasks)}-curve.svg", _curve_chart(run.curve).encode()),
    ]


def _curve_chart(points: Sequence[CurvePoint]) -> str:
    at = np.array([float(point.demonstrations) for point in points])

    def line(label: str, rates: Sequence[Rate]) -> Line:
        values = [np.nan if rate.value is None else rate.value for rate in rates]
        ends = np.array([rate.interval for rate in rates])
        return Line(label, at, np.array(values), ends[:, 0], ends[:, 1])

    lines = [
        line("total", [point.summary.total for point in points]),
        line("pick", [point.summary.pick for point in points]),
        line("place", [point.summary.place for point in points]),
    ]
    return line_chart(lines, "Success", "demonstrations", (0.0, 1.02), (760, 340))


def _failures(run: RunResults, name: str) -> list[Block]:
    failed = [(result, record) for result in run.results for record in result.failures]
    blocks: list[Block] = [Heading(f"Failures{name}")]
    if not run.results:
        return []
    if not failed:
        return [*blocks, Paragraph("None.")]
    kinds = Counter((result.label, record.failure.value) for result, record in failed)
    rows = tuple(
        (Cell(label), Cell(kind), Cell(str(count))) for (label, kind), count in kinds.most_common()
    )
    blocks.append(Table(("setup", "what went wrong", "episodes"), rows))
    shown: list[Block] = []
    for result, record in failed:
        picture = result.picture_of(record)
        if picture.is_file() and len(shown) < MOST_FAILURES:
            lies = "lying" if record.lying else "upright"
            caption = (
                f"{result.label}, seed {record.seed}: {record.thing}, {lies}. "
                f"{record.failure.value}: {record.reason}."
            )
            with Image.open(picture) as image:
                shown.append(jpeg(f"{result.path.stem}-{record.seed}.jpg", image, caption))
    if shown:
        return [*blocks, *shown]
    listed = "\n".join(
        f"{result.label}, seed {record.seed}, {record.thing}: {record.failure.value}: "
        f"{record.reason}"
        for result, record in failed[:MOST_FAILURES]
    )
    return [*blocks, Paragraph("Run the benchmark with --stills to see them."), Code(listed)]


# --- the bottom of the page --------------------------------------------------------------------


def _again(runs: Sequence[RunResults]) -> list[Block]:
    lines: list[str] = []
    facts: dict[str, str] = {"handful (report)": handful.__version__}
    for run in runs:
        command = run.training.get("command")
        lines += [str(command)] if command else []
        lines += [str(one.get("command", "")) for one in run.commands]
        for key in ("handful", "torch", "python"):
            if key in run.training:
                facts[f"{key} (training)"] = str(run.training[key])
        for entry in run.commands:
            for key in ("handful", "python", "machine"):
                if key in entry:
                    facts[f"{key} (benchmark)"] = str(entry[key])
        for step in STEPS:
            seed = _dig(run.training, step, "seed")
            if seed is not None:
                facts[f"{', '.join(run.tasks)}: seed of {step} training"] = str(seed)
        for result in run.results:
            first, last = result.summary.seeds
            what = f"{result.conditions.task}, {result.label}: seeds of episodes"
            models = f", models {result.conditions.models}" if result.conditions.models else ""
            facts[what] = f"{first} to {last} ({result.kind_of_seeds}){models}"
    rows = tuple((Cell(name), Cell(value)) for name, value in facts.items())
    given = "\n".join(dict.fromkeys(line for line in lines if line)) or "(no command was kept)"
    return [Heading("How to make this again"), Code(given), Table(("", ""), rows)]


def _seconds_of_training(run: RunResults, step: str) -> float | None:
    seconds = _dig(run.training, step, "seconds")
    return float(seconds) if isinstance(seconds, int | float) else None


def _dig(value: Any, *names: str) -> Any:
    """A value inside nested objects, or None."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"

"""The report's sections about one run: demonstrations, training, pictures, curve, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from handful._names import safe_name
from handful.bench.report._charts import Line, has_values, line_chart
from handful.bench.report._curve import CurvePoint
from handful.bench.report._document import (
    Block,
    Cell,
    Code,
    Gallery,
    Heading,
    Paragraph,
    Picture,
    Table,
)
from handful.bench.report._pictures import picture_from_file, pictures_of_models
from handful.bench.report._results import Result, RunResults
from handful.bench.report._statistics import Rate
from handful.bench.run import EpisodeRecord, what_is_missing
from handful.learning import LogEntry
from handful.sim import TASKS

MOST_FAILURES = 24
"""Failures of a run that are shown; the others are only counted."""


def about_run(
    run: RunResults, pictures: bool, tell: Callable[[str], None], alone: bool
) -> list[Block]:
    """All sections about a run.

    Args:
        run: What its folder tells.
        pictures: Draw what the models see.
        tell: Told what is being done.
        alone: Whether the page is about this run only.
    """
    name = "" if alone else f" ({', '.join(run.tasks)})"
    return [
        *_demonstrations(run, name),
        *_training(run, name),
        *(_models(run, name, tell) if pictures else []),
        *_learning_curve(run, name),
        *_failures(run, name),
    ]


def _demonstrations(run: RunResults, name: str) -> list[Block]:
    folder = run.training.demonstrations.folder
    picture = Path(folder) / "demos.png"
    if not folder or not _is_there(picture):
        return []
    shown = picture_from_file(picture, f"{_file_word(run)}-demonstrations", folder)
    return [Heading(f"What was demonstrated{name}"), shown]


def _training(run: RunResults, name: str) -> list[Block]:
    charts = []
    for step in run.steps:
        log = run.training_log(step)
        if log:
            charts += _charts_of_training(log, step, f"{_file_word(run)}-{safe_name(step)}")
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


def _charts_of_training(log: Sequence[LogEntry], step: str, name: str) -> list[Picture]:
    at = np.arange(1, len(log) + 1, dtype=np.float64)
    window = max(5, len(log) // 25)

    def line(label: str, field: str) -> Line:
        values = np.array([getattr(entry, field) for entry in log], dtype=np.float64)
        return Line(label, at, values, smooth=window)

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
            f"{name}-{file}",
            ".svg",
            line_chart(lines, f"{step}: {title}", "training step").encode(),
        )
        for file, title, lines in charts
        if any(map(has_values, lines))
    ]


def _models(run: RunResults, name: str, tell: Callable[[str], None]) -> list[Block]:
    """Pictures of what the models see; if some are missing, a sentence that says which."""
    task = run.tasks[0]
    if task not in TASKS or not any((run.folder / step).is_dir() for step in run.steps):
        return []
    heading = Heading(f"What the models see{name}")
    missing = what_is_missing(run.folder, TASKS[task].task)
    if missing:
        return [heading, Paragraph(missing)]
    drawn = pictures_of_models(run.folder, task, tell)
    if not drawn:
        return []
    return [
        heading,
        Paragraph(
            "Poses that the models propose, and the key field that they compare with: its type-0 "
            "part as colours, its type-1 part as arrows. Like colours mean like places; they stay "
            "with the object when it lies, and the arrows turn with it."
        ),
        Gallery(tuple(drawn)),
    ]


def _learning_curve(run: RunResults, name: str) -> list[Block]:
    if not run.curve:
        return []
    return [
        Heading(f"Learning curve{name}"),
        Paragraph("Success against the number of demonstrations, with 95% intervals."),
        Picture(f"{_file_word(run)}-curve", ".svg", _curve_chart(run.curve).encode()),
    ]


def _curve_chart(points: Sequence[CurvePoint]) -> str:
    """A line for the whole task and one for each of its steps."""

    def line(label: str, rates: Sequence[tuple[int, Rate]]) -> Line:
        at = np.array([float(demonstrations) for demonstrations, _ in rates])
        values = [np.nan if rate.value is None else rate.value for _, rate in rates]
        ends = np.array([rate.interval for _, rate in rates])
        return Line(label, at, np.array(values), ends[:, 0], ends[:, 1])

    lines = [line("total", [(one.demonstrations, one.summary.total) for one in points])]
    for name in dict.fromkeys(name for one in points for name in one.summary.step_names):
        rates = [
            (one.demonstrations, one.summary.step(name).rate)
            for one in points
            if name in one.summary.step_names
        ]
        lines.append(line(name, rates))
    return line_chart(lines, "Success", "demonstrations", (0.0, 1.02), (760, 340))


def _failures(run: RunResults, name: str) -> list[Block]:
    if not run.results:
        return []
    failed = [(result, record) for result in run.results for record in result.failures]
    heading = Heading(f"Failures{name}")
    if not failed:
        return [heading, Paragraph("None.")]
    kinds = Counter((result.label, record.outcome) for result, record in failed)
    rows = tuple(
        (Cell(label), Cell(kind), Cell(str(count))) for (label, kind), count in kinds.most_common()
    )
    counted = Table(("setup", "what went wrong", "episodes"), rows)
    shown = _pictures_of_failures(failed)
    if shown:
        return [heading, counted, *shown]
    listed = "\n".join(
        f"{result.label}, seed {record.seed}, {', '.join(record.things)}: {record.outcome}: "
        f"{record.reason}"
        for result, record in failed[:MOST_FAILURES]
    )
    advice = Paragraph("Run the benchmark with --stills to see them.")
    return [heading, counted, advice, Code(listed)]


def _pictures_of_failures(failed: Sequence[tuple[Result, EpisodeRecord]]) -> list[Block]:
    shown: list[Block] = []
    for result, record in failed:
        picture = result.picture_of(record)
        if len(shown) < MOST_FAILURES and _is_there(picture):
            lies = "lying" if record.lying else "upright"
            caption = (
                f"{result.label}, seed {record.seed}: {', '.join(record.things)}, {lies}. "
                f"{record.outcome}: {record.reason}."
            )
            name = f"{result.path.stem}-{record.seed}"
            shown.append(picture_from_file(picture, name, caption))
    return shown


def _file_word(run: RunResults) -> str:
    """What the names of a run's pictures begin with."""
    return "-".join(map(safe_name, run.tasks))


def _is_there(path: Path) -> bool:
    """Whether a file is there; a path that no file can have is not."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False

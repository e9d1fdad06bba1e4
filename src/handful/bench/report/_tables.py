"""Success rates as tables: columns for the steps of a task, whatever they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from handful.bench.report._statistics import Rate, Summary
from handful.bench.run import EpisodeRecord
from handful.sim import DEFAULT_RIG

FORMAT = "handful-bench"
VERSION = 2


_Row = TypeVar("_Row")


def by_steps(rows: Iterable[_Row], summary: Callable[[_Row], Summary]) -> list[list[_Row]]:
    """Rows grouped by the steps of their tasks: rows of one group fit under one head.

    Args:
        rows: What is to be shown in tables.
        summary: Gives the summary of a row.
    """
    groups: dict[tuple[str, ...], list[_Row]] = {}
    for row in rows:
        groups.setdefault(summary(row).step_names, []).append(row)
    return list(groups.values())


def paper_rate(row: Summary, step: str | None = None) -> float | None:
    """What the paper reports for a step, or for the whole task; None if it does not."""
    if row.paper is None:
        return None
    return row.paper.total if step is None else row.paper.steps.get(step)


def joined_seconds(row: Summary, between: str = " + ") -> str:
    """Median times of inference of the steps, in order."""
    return between.join(number(step.seconds, 2) for step in row.steps)


def joined_skips(row: Summary, digits: int = 1, between: str = " + ") -> str:
    """Mean numbers of poses that were skipped in the steps, in order."""
    return between.join(number(step.skips, digits) for step in row.steps)


def number(value: float | None, digits: int) -> str:
    """A number with some digits; a dash for none."""
    return "-" if value is None else f"{value:.{digits}f}"


def table_as_json(
    rows: Sequence[Summary],
    records: Sequence[EpisodeRecord],
    hands: Mapping[str, str],
    rig: str = DEFAULT_RIG.words,
) -> str:
    """Table and episodes as the text of a JSON file.

    Args:
        rows: The table.
        records: The episodes.
        hands: Name of the hand that the robot carried, by the name of the task.
        rig: The cameras in words.
    """
    content = {
        "format": FORMAT,
        "version": VERSION,
        "table": [
            {**_row(row), "gripper": hands.get(row.task, ""), "cameras": rig} for row in rows
        ],
        "episodes": [json.loads(record.to_json()) for record in records],
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _row(row: Summary) -> dict[str, Any]:
    return {
        "task": row.task,
        "setup": row.setup,
        "seeds": list(row.seeds),
        "steps": [
            {
                "name": step.name,
                **_rate(step.rate),
                "seconds": step.seconds,
                "skips": step.skips,
                "redirected": step.redirected,
                "paper": paper_rate(row, step.name),
            }
            for step in row.steps
        ],
        "total": {**_rate(row.total), "paper": paper_rate(row)},
        "failures": dict(row.failures),
        "void": row.void,
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {**asdict(rate), "rate": rate.value, "interval": list(rate.interval)}

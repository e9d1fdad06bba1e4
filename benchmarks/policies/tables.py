"""Prints the tables of README.md from what run.sh left in a folder.

python benchmarks/policies/tables.py OUT
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from handful.bench import Rate, Summary, joined_skips, read_episodes, summarise
from handful.learning import RunFolder

TASKS = ("mug", "bowl", "bottle")
STEPS = ("pick", "place")
SETUPS = ("trained", "instances", "poses", "distractors", "all")
SEEN_BY = "1_camera-2_grasp_views-noise_usual"
"""How results with one noisy camera are named."""


def main(out: Path) -> None:
    """Print everything that is there."""
    setups(out)
    unseen(out)
    trainings(out)
    failures(out)
    seconds(out)


def setups(out: Path) -> None:
    """Success in every setup, next to the paper's."""
    table("task", "setup", "episodes", *STEPS, "total", "paper", "skipped")
    for task in TASKS:
        for setup in SETUPS:
            found = summary(out / "runs" / task, f"{task}-{setup}")
            if found is not None:
                row(task, setup, *rates(found), paper(found), joined_skips(found))


def unseen(out: Path) -> None:
    """All unseen: with scanned and modelled objects, and with one noisy camera."""
    table("task, all unseen", "episodes", *STEPS, "total", "by object")
    for task in TASKS:
        for words, name in (("meshes", task), ("one noisy camera", SEEN_BY)):
            found = summary(out / "runs" / task, f"{task}-all-{name}")
            if found is not None:
                path = out / "runs" / task / "bench" / f"{task}-all-{name}.jsonl"
                row(f"{task}, {words}", *rates(found), by_object(path))


def by_object(path: Path) -> str:
    """How often the episodes with each object succeeded."""
    records = [record for record in read_episodes(path)[1] if record.begun]
    done, tried = Counter[str](), Counter[str]()
    for record in records:
        tried[record.things[0]] += 1
        done[record.things[0]] += record.success
    return ", ".join(f"{name} {done[name]}/{tried[name]}" for name in sorted(tried))


def trainings(out: Path) -> None:
    """Trainings with other seeds."""
    table("task, all unseen", "training seed", "episodes", *STEPS, "total")
    for task in TASKS:
        totals = []
        for seed in range(10):
            run = out / "runs" / task if seed == 0 else out / "more" / f"{task}-seed-{seed}"
            found = summary(run, f"{task}-all")
            if found is not None:
                totals.append(found.total.value)
                row(task, seed, *rates(found))
        if len(totals) > 1:
            row(task, "mean", "", "", "", f"{np.mean(totals):.3f}, sd {np.std(totals, ddof=1):.3f}")


def failures(out: Path) -> None:
    """What went wrong, by kind."""
    table("task", "results", "what went wrong", "episodes")
    for path in sorted(out.glob("runs/*/bench/*.jsonl")):
        if path.name != "commands.jsonl":
            conditions, records = read_episodes(path)
            kinds = Counter(r.outcome for r in records if r.begun and not r.success)
            for kind, count in kinds.most_common():
                row(conditions.task, path.stem, kind, count)


def seconds(out: Path) -> None:
    """How long training and inference took."""
    table("run", *(f"{step} training" for step in STEPS), *STEPS)
    for path in sorted([*out.glob("runs/*/run.json"), *out.glob("more/*/run.json")]):
        run = RunFolder(path.parent)
        trained = [run.trained(step).seconds for step in STEPS]
        spent = [f"{seconds:.0f} s" for seconds in trained if seconds is not None]
        task = next((task for task in TASKS if path.parent.name.startswith(task)), None)
        if task is None:
            continue
        found = summary(path.parent, f"{task}-all")
        if found is not None and len(spent) == len(STEPS):
            took = [f"{step.seconds:.2f} s" for step in found.steps]
            row(str(path.parent.relative_to(out)), *spent, *took)


def summary(run: Path, name: str) -> Summary | None:
    """Of one file of episodes, if it is there and has some."""
    path = run / "bench" / f"{name}.jsonl"
    records = read_episodes(path)[1] if path.is_file() else []
    return summarise(records) if records else None


def rates(found: Summary) -> tuple[object, ...]:
    """Cells: number of episodes, the rate of each step, and the total."""
    steps = [str(found.step(name).rate) for name in STEPS]
    return found.total.trials, *steps, interval(found.total)


def interval(rate: Rate) -> str:
    """A rate with its 95% interval."""
    low, high = rate.interval
    return f"**{rate}** [{low:.2f}, {high:.2f}]"


def paper(found: Summary) -> str:
    """What the paper reports."""
    if found.paper is None:
        return ""
    values = [*(found.paper.steps[name] for name in STEPS), found.paper.total]
    return " ".join(f"{value:.2f}" for value in values)


def table(*names: str) -> None:
    """Begin a table."""
    print()
    row(*names)
    row(*["---"] * len(names))


def row(*cells: object) -> None:
    """One line of a table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

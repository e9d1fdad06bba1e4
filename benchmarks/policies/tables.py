"""Prints the tables of README.md from what run.sh left in a folder.

python benchmarks/policies/tables.py OUT
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from handful.bench import Rate, Summary, joined_seconds, joined_skips, read_episodes, summarise
from handful.learning import RunFolder

TASKS = ("mug", "bowl", "bottle")
STEPS = ("pick", "place")
SETUPS = ("trained", "instances", "poses", "distractors", "all")


def main(out: Path) -> None:
    """Print everything that is there."""
    setups(out)
    meshes(out)
    trainings(out)
    demonstrations(out)
    descriptors(out)
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


def meshes(out: Path) -> None:
    """The same with scanned and modelled objects, all unseen."""
    table("task", "meshes", "episodes", *STEPS, "total", "by mesh")
    for task in TASKS:
        path = out / "runs" / task / "bench" / f"{task}-all-{task}.jsonl"
        if path.is_file():
            records = [record for record in read_episodes(path)[1] if record.begun]
            done, tried = Counter[str](), Counter[str]()
            for record in records:
                tried[record.things[0]] += 1
                done[record.things[0]] += record.success
            each = ", ".join(f"{name} {done[name]}/{tried[name]}" for name in sorted(tried))
            row(task, len(tried), *rates(summarise(records)), each)


def trainings(out: Path) -> None:
    """Three trainings: another seed, and other demonstrations."""
    table("mug, all unseen", "episodes", *STEPS, "total")
    totals = []
    for name, run in (
        ("seed 0", "runs/mug"),
        ("seed 1", "more/mug-seed-1"),
        ("other demonstrations", "more/mug-other-demos"),
    ):
        found = summary(out / run, "mug-all")
        if found is not None:
            totals.append(found.total.value)
            row(name, *rates(found))
    if len(totals) > 1:
        print(
            f"\nTotal: mean {np.mean(totals):.3f}, standard deviation {np.std(totals, ddof=1):.3f}"
        )


def demonstrations(out: Path) -> None:
    """Success against the number of demonstrations."""
    table("task", "demonstrations", "episodes", *STEPS, "total")
    for task in TASKS:
        for count in (1, 3, 5, 10):
            run = out / "runs" / task
            run = run if count == 10 else run / "curve" / f"demos-{count:03d}"
            found = summary(run, f"{task}-all")
            if found is not None:
                row(task, count, *rates(found))


def descriptors(out: Path) -> None:
    """Type 0 alone against types 0 to 3."""
    table("mug, all unseen", "episodes", *STEPS, "total", "seconds")
    for name, run in (
        ("types 0-3", "runs/mug"),
        ("type 0", "more/mug-type-0"),
        ("type 0, faster pick", "more/mug-type-0-matched"),
    ):
        found = summary(out / run, "mug-all")
        if found is not None:
            row(name, *rates(found), joined_seconds(found))


def failures(out: Path) -> None:
    """What went wrong, by kind."""
    table("task", "setup", "what went wrong", "episodes")
    for path in sorted(out.glob("runs/*/bench/*.jsonl")):
        if path.name != "commands.jsonl":
            conditions, records = read_episodes(path)
            label = conditions.setup + (", meshes" if conditions.objects else "")
            kinds = Counter(r.outcome for r in records if r.begun and not r.success)
            for kind, count in kinds.most_common():
                row(conditions.task, label, kind, count)


def seconds(out: Path) -> None:
    """How long training and inference took."""
    table("run", *(f"{step} training" for step in STEPS), *STEPS)
    for path in sorted([*out.glob("runs/*/run.json"), *out.glob("*/*/curve/*/run.json"),
                        *out.glob("more/*/run.json")]):  # fmt: skip
        run = RunFolder(path.parent)
        trained = [run.trained(step).seconds for step in STEPS]
        spent = [f"{seconds:.0f} s" for seconds in trained if seconds is not None]
        task = next(t for t in TASKS if t in path.parts or path.parent.name.startswith(t))
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

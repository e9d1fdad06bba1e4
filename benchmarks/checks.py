"""Which usual mistakes `handful check` names, in which demonstrations: a table.

    python benchmarks/checks.py out/sample out/mug --demos 3 > checks.md

Each demonstration folder is corrupted in every way of `tests/corruptions.py`, as a person would do
it, and checked. A mistake is `named` if the cause that is told is the one that was made, `found`
(with what was named instead) if something is said to be wrong or doubtful, and `-` if nothing is.
A corruption that changes no pose by 1 cm or 10 degrees, and no cloud, is `same`: a top-down grasp
has a rotation that is its own inverse, for example.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from corruptions import CORRUPTIONS
from handful.checks import check_demos
from handful.demos import DemoSet, load_demos


def is_same(one: DemoSet, other: DemoSet) -> bool:
    """Whether two sets hardly differ."""
    if one.gripper != other.gripper:
        return False
    for demo, changed in zip(one, other, strict=True):
        for step, now in zip(demo.steps, changed.steps, strict=True):
            if step.scene is not now.scene or step.grasp is not now.grasp:
                return False
            between = np.swapaxes(step.targets[:, :3, :3], 1, 2) @ now.targets[:, :3, :3]
            turned = np.degrees(Rotation.from_matrix(between).magnitude().max())
            if np.abs(step.targets - now.targets)[:, :3, 3].max() > 0.01 or turned > 10.0:
                return False
    return True


def verdict(demos: DemoSet, kind: str, corrupted: DemoSet) -> str:
    """One cell of the table."""
    if is_same(demos, corrupted):
        return "same"
    report = check_demos(corrupted)
    if not report.problems:
        return "-"
    severity = "" if report.wrong else " (warning)"
    if report.diagnosis is None:
        return f"found{severity}"
    if report.diagnosis.mistake.kind == kind:
        return f"named{severity}"
    return f"found{severity}: {report.diagnosis.mistake.kind}"


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--demos", type=int, default=3, help="Demonstrations of each folder.")
    parser.add_argument("--only", default="", help="Corruptions with this text in their name.")
    options = parser.parse_args()
    sets = {}
    for folder in options.folders:
        loaded = load_demos(folder)
        sets[folder.name] = replace(loaded, demonstrations=loaded.demonstrations[: options.demos])
    print(f"| mistake | {' | '.join(sets)} |\n|---|{'---|' * len(sets)}")
    right = wrong = missed = 0
    start = time.process_time()
    for what, (kind, corrupt) in CORRUPTIONS.items():
        if options.only not in what:
            continue
        cells = [verdict(demos, kind, corrupt(demos)) for demos in sets.values()]
        right += sum(cell.startswith("named") for cell in cells)
        wrong += sum(cell.startswith("found") for cell in cells)
        missed += sum(cell == "-" for cell in cells)
        print(f"| {what} | {' | '.join(cells)} |", flush=True)
    print(f"\nNamed {right}, found and named otherwise {wrong}, not found {missed}; "
          f"{time.process_time() - start:.0f} CPU-seconds.")  # fmt: skip


if __name__ == "__main__":
    main()

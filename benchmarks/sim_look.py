"""Our clouds next to the authors': scenes with the gripper at its targets, and grasp clouds.

handful import edf ../shared/data/edf_mug --out out/mug
.venv/bin/python benchmarks/sim_look.py --theirs out/mug --out docs/images/simulation.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

from handful.demos import load_demos
from handful.render import tile
from handful.sim import collect_demos, task_named
from handful.viz import picture_of_step


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--theirs", type=Path, required=True, help="the authors' demonstrations")
    parser.add_argument("--out", type=Path, default=Path("out/simulation.png"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--voxel", type=float, help="show the clouds after a voxel filter, metres")
    options = parser.parse_args()
    ours = collect_demos(task_named("mug"), 2, options.seed)
    theirs = load_demos(options.theirs)
    panels, captions = [], []
    for owner, demos in (("ours", ours), ("the authors'", theirs)):
        for number, demonstration in enumerate(demos.demonstrations[:2]):
            for step in demonstration.steps:
                panels.append(picture_of_step(step, demos.gripper, options.voxel))
                captions.append(f"{owner} {number}: {step.name}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    tile(panels, 4, captions).save(options.out)
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()

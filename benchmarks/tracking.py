"""How well and how fast a predictor follows a mug that a hand moves.

    python benchmarks/tracking.py --run runs/mug --seconds 30 --sequences 3

A simulated mug moves at 0.1 m/s and turns at 30 degrees/s, both all the time, with changes of
direction; it leans by up to 40 degrees, and the first frame shows it where an episode begins. No
hand is drawn. The cameras of the simulated world look at it ten times a second, and
`Predictor.track` is asked with each cloud. Rendering is not measured.

The best grasp. A mug can be held anywhere around its rim, and the model gives all of the rim nearly
the same energy; which place is lowest by a little changes from frame to frame with the thinning
of the cloud. Therefore a judged frame counts as right if a pose within 5 mm (contact point) and 5
degrees of the followed one is as good as the best pose of a full-effort search of the *whole* scene
(64 starts, long refinement): its energy is higher by at most 1, which is the difference from which
on tracking moves to another grasp (`WORTH_MOVING`). Also printed: by how much the followed pose
itself is higher; the share of frames within 5 mm and 5 degrees of the single best pose of that
search; and the slip, which is the movement of the followed grasp in the mug's own frame from one
frame to the next. All energies are those of the whole scene.

Times are those of one thread, as CPU time and wall time, and as ratios to `Predictor.sample` (n=8)
on the judged frames of the same process.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from handful.clouds import PointCloud
from handful.learning import RunFolder
from handful.nn import keep_freed_memory
from handful.policy import Predictor, Tracked
from handful.sim import Episode, Setup, task_named

RATE = 10.0
"""Frames a second."""
SPEED, TURN = 0.1, np.deg2rad(30.0)
"""Of the mug, metres and radians a second."""
NIMBLE = 4.0
"""Radians a second by which the directions of moving and turning change at most."""
LEAN = np.deg2rad(40.0)
FAR = 0.17
"""Metres from the middle of the table along x and y, at most."""
CLEAR = 0.15
"""Metres between the mug's and the hanger's middle, seen from above."""
SUBSTEPS = 10
NEAR, TURNED = 0.005, np.deg2rad(5.0)
AS_GOOD = 1.0
"""A pose is as good as the best one if its energy is higher by at most this."""
AROUND = 256
"""Poses around the followed one that are looked at."""
DEVELOPMENT_SEEDS = 10_000


@dataclass
class Record:
    """What was measured, frame by frame; judged frames only for the second half."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    sure: list[float] = field(default_factory=list)
    whole: int = 0
    grasps: list[np.ndarray] = field(default_factory=list)  # T_item_contact
    right: list[bool] = field(default_factory=list)
    higher: list[float] = field(default_factory=list)
    best: list[bool] = field(default_factory=list)
    sample_cpu: list[float] = field(default_factory=list)
    sample_wall: list[float] = field(default_factory=list)


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    keep_freed_memory()
    predictor = RunFolder(options.run).predictor(options.step)
    if not 0 <= options.seed < DEVELOPMENT_SEEDS - options.sequences:
        print("seeds from 10000 on are for evaluation: tune nothing on what they show.")
    for number in range(options.sequences):
        seed = options.seed + number
        record = follow(predictor, seed, options)
        print(f"sequence {seed}:", flush=True)
        _print(record, options.budget)


def follow(predictor: Predictor, seed: int, options: argparse.Namespace) -> Record:
    """One sequence."""
    record, answer = Record(), None
    for frame, (T_scene_item, scene) in enumerate(
        frames(seed, Setup.named(options.setup), round(options.seconds * RATE))
    ):
        start = time.process_time()
        answer = predictor.track(scene, answer, budget=options.budget)
        cpu = time.process_time() - start
        if len(answer) == 0:
            answer = predictor.track(scene, None)
        contact = answer.T_scene_gripper[0] @ predictor.gripper.T_gripper_contact
        record.grasps.append(np.linalg.inv(T_scene_item) @ contact)
        if frame == 0:  # The whole scene, without a budget.
            continue
        record.cpu.append(cpu)
        record.wall.append(answer.seconds)
        record.sure.append(float(answer.confidence[0]))
        record.whole += answer.whole
        if frame % options.judge_every == 0:
            _judge(predictor, scene, answer, record, np.random.default_rng([seed, frame]))
    return record


# --- the moving mug -----------------------------------------------------------------------------


def frames(seed: int, setup: Setup, count: int) -> Iterator[tuple[np.ndarray, PointCloud]]:
    """T_scene_item and what the cameras see, frame by frame."""
    episode: Episode = task_named("mug").reset(seed, setup)
    world, rng = episode.world, np.random.default_rng(seed)
    with episode:
        for T_scene_item in path(world.T_scene_item, world.target.T_scene_thing[:2, 3], count, rng):
            world.put_item(T_scene_item)
            yield T_scene_item, episode.observe_scene()


def path(
    start: np.ndarray, hanger: np.ndarray, count: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Poses of constant speed and turning rate, from one random pose to the next.

    Args:
        start: T_scene_item of the first frame.
        hanger: Where the hanger stands, x and y; the way leads around it.
        count: Number of frames.
        rng: For the poses on the way.
    """
    place, turn, low = start[:3, 3].copy(), Rotation.from_matrix(start[:3, :3]), start[2, 3]
    goal, wanted = _place(place, hanger, low, rng), _orientation(rng)
    along, about = _unit(goal - place), np.array([0.0, 0.0, 1.0])
    step = 1.0 / RATE / SUBSTEPS
    for _ in range(count):
        yield _pose(place, turn)
        for _ in range(SUBSTEPS):
            if np.linalg.norm(goal - place) < 0.03:
                goal = _place(place, hanger, low, rng)
            if (wanted * turn.inv()).magnitude() < 0.15:
                wanted = _orientation(rng)
            along = _steered(along, goal - place, NIMBLE * step)
            about = _steered(about, (wanted * turn.inv()).as_rotvec(), NIMBLE * step)
            place = place + SPEED * step * along
            place[2] = max(place[2], low)
            turn = Rotation.from_rotvec(TURN * step * about) * turn


def _place(
    here: np.ndarray, hanger: np.ndarray, low: float, rng: np.random.Generator
) -> np.ndarray:
    """A place to which a straight line leads that is clear of the hanger."""
    while True:
        there = np.array([*rng.uniform(-FAR, FAR, 2), rng.uniform(low + 0.02, low + 0.15)])
        way = there[:2] - here[:2]
        share = np.clip((hanger - here[:2]) @ way / max(way @ way, 1e-9), 0.0, 1.0)
        clear = np.linalg.norm(here[:2] + share * way - hanger)
        now = np.linalg.norm(here[:2] - hanger)
        if clear >= min(CLEAR, now) and np.linalg.norm(there - here) > 0.1:
            return there


def _orientation(rng: np.random.Generator) -> Rotation:
    lean, toward, yaw = rng.uniform(0, LEAN), *rng.uniform(-np.pi, np.pi, 2)
    axis = np.array([np.cos(toward), np.sin(toward), 0.0])
    return Rotation.from_rotvec(lean * axis) * Rotation.from_rotvec([0.0, 0.0, yaw])


def _steered(direction: np.ndarray, wanted: np.ndarray, most: float) -> np.ndarray:
    """A unit vector, turned towards another by at most an angle."""
    wanted = _unit(wanted)
    angle = np.arccos(np.clip(direction @ wanted, -1.0, 1.0))
    axis = np.cross(direction, wanted)
    if np.linalg.norm(axis) < 1e-9:
        axis = np.cross(direction, np.eye(3)[np.abs(direction).argmin()])
    return Rotation.from_rotvec(_unit(axis) * min(angle, most)).apply(direction)


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def _pose(place: np.ndarray, turn: Rotation) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = turn.as_matrix(), place
    return pose


# --- judging ------------------------------------------------------------------------------------


def _judge(
    predictor: Predictor,
    scene: PointCloud,
    answer: Tracked,
    record: Record,
    rng: np.random.Generator,
) -> None:
    """Compare the followed pose with a full-effort search of the whole scene."""
    start = time.process_time()
    record.sample_wall.append(predictor.sample(scene, n=8).seconds)
    record.sample_cpu.append(time.process_time() - start)
    thorough = replace(predictor, search=replace(predictor.search, starts=64, refine_steps=30))
    view = thorough.look(scene)
    found = view.sample(64)
    followed = answer.T_scene_gripper[0]
    around = view.energies_at(_around(followed, predictor, rng))
    record.higher.append(float(around[0] - found.energy[0]))
    record.right.append(bool(around.min() <= found.energy[0] + AS_GOOD))
    record.best.append(bool(_close(found.T_scene_gripper[0], followed, predictor)))


def _around(pose: np.ndarray, predictor: Predictor, rng: np.random.Generator) -> np.ndarray:
    """A pose, and poses drawn evenly around its contact point within `NEAR` and `TURNED`."""
    T_gripper_contact = predictor.gripper.T_gripper_contact
    moved, turned = (_in_ball(rng, radius) for radius in (NEAR, TURNED))
    motions = np.tile(np.eye(4), (1 + AROUND, 1, 1))
    motions[1:, :3, :3] = Rotation.from_rotvec(turned).as_matrix()
    motions[1:, :3, 3] = moved
    return pose @ T_gripper_contact @ motions @ np.linalg.inv(T_gripper_contact)


def _in_ball(rng: np.random.Generator, radius: float) -> np.ndarray:
    directions = rng.normal(size=(AROUND, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return radius * rng.random((AROUND, 1)) ** (1.0 / 3.0) * directions


def _close(one: np.ndarray, other: np.ndarray, predictor: Predictor) -> bool:
    gap, angle = _apart(one @ predictor.gripper.T_gripper_contact,
                        other @ predictor.gripper.T_gripper_contact)  # fmt: skip
    return bool(gap <= NEAR and angle <= TURNED)


def _apart(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Metres and radians between frames [..., 4, 4]."""
    between = np.swapaxes(one[..., :3, :3], -1, -2) @ other[..., :3, :3]
    cosine = 0.5 * (np.trace(between, axis1=-2, axis2=-1) - 1.0)
    gap = np.linalg.norm(one[..., :3, 3] - other[..., :3, 3], axis=-1)
    return gap, np.arccos(np.clip(cosine, -1.0, 1.0))


def _print(record: Record, budget: float) -> None:
    for name, seconds in (("CPU", record.cpu), ("wall", record.wall)):
        ms = 1000.0 * np.array(seconds)
        print(
            f"  {name} ms: median {np.median(ms):.0f}, 95th percentile {np.quantile(ms, 0.95):.0f},"
            f" max {ms.max():.0f}; {100 * np.mean(ms <= 1000 * budget):.1f}% within "
            f"{1000 * budget:.0f}"
        )
    faster = np.median(record.sample_cpu) / np.median(record.cpu)
    print(
        f"  sample (n=8) takes {faster:.1f} times the CPU time: median "
        f"{1000 * np.median(record.sample_cpu):.0f} ms, wall "
        f"{1000 * np.median(record.sample_wall):.0f} ms"
    )
    grasps = np.array(record.grasps)
    gap, angle = _apart(grasps[1:], grasps[:-1])
    print(
        f"  {len(record.right)} judged frames within 5 mm and 5 degrees: "
        f"{100 * np.mean(record.right):.1f}% of a grasp as good as the best, "
        f"{100 * np.mean(record.best):.1f}% of the very best; energy of the followed pose above "
        f"the best: median {np.median(record.higher):.2f}, most {max(record.higher):.2f}"
    )
    print(
        f"  confidence: median {np.median(record.sure):.3f}, lowest {min(record.sure):.3f}; "
        f"whole scene looked at in {record.whole} of {len(record.wall)} frames; slip on the mug "
        f"from frame to frame: median {1000 * np.median(gap):.1f} mm and "
        f"{np.degrees(np.median(angle)):.1f} degrees",
        flush=True,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True, help="a run of `handful train`")
    parser.add_argument("--step", default="pick", help="name of the step")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each sequence")
    parser.add_argument("--sequences", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="of the first sequence")
    parser.add_argument("--setup", default="trained", help="trained, instances, poses, ...")
    parser.add_argument("--budget", type=float, default=0.1, help="seconds for a frame")
    parser.add_argument("--judge-every", type=int, default=5, help="frames")
    return parser.parse_args()


if __name__ == "__main__":
    main()

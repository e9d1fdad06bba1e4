"""Judge models on stored clouds: minutes instead of hours, and the same scenes for every model.

    .venv/bin/python benchmarks/policies/judge.py look mug out/judge --seed 2300 --scenes 40
    .venv/bin/python benchmarks/policies/judge.py look mug out/judge --objects ../shared/meshes/mug
    .venv/bin/python benchmarks/policies/judge.py score out/judge runs/mug --task mug --step pick

`look` lets the oracle do episodes of the setup "all", and stores what clean and noisy cameras see
before each step, with the poses that the oracle holds to be right there. `score` asks a model for
its best pose in each scene and measures how far it is from the nearest right one, and again for the
best of those that a robot would try: with the hand in nothing, and with something to take. Nothing
is executed, so that reach, look-ahead and grasps that slip are not judged: `handful bench` does
that.

A best pose is right for an empty gripper within 2.5 cm and 25 degrees of one of the oracle's, with
the fingers either way round, and for a full one within 3 cm, 1.5 cm in height and 25 degrees. It is
exact within 8 mm and 10 degrees. Use development seeds (below 10000) here.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from handful.clouds import PointCloud, read_cloud, write_cloud
from handful.demos import Gripper, gripper_named
from handful.learning import RunFolder
from handful.policy import Feasibility, Motion, RankedPoses
from handful.sim import (
    DEFAULT_RIG,
    CameraRig,
    Episode,
    Setup,
    SimError,
    Thing,
    Variant,
    load_things,
    oracle_pose,
    task_named,
)

RIGS = {
    "clean": DEFAULT_RIG,
    "noisy": CameraRig(cameras=1, grasp_views=2, noise="usual"),
}
"""Three clean cameras as in the demonstrations, and what a user may have."""
GRASPS, GOALS = 400, 1500
"""Right poses that are drawn for a scene."""
ASKED = 24
"""Poses that a model is asked for."""
RIGHT = {False: (0.025, 0.025, 25.0), True: (0.03, 0.015, 25.0)}
"""Metres, metres in height and degrees, for an empty and for a full gripper."""
EXACT = (0.008, 0.008, 10.0)


@dataclass(frozen=True)
class Score:
    """How one best pose compares with the nearest right one.

    Attributes:
        distance: Between the contact points, or the middles of what is held, metres.
        height: The vertical part of it.
        angle: Degrees.
        confidence: Of the best pose.
    """

    distance: float
    height: float
    angle: float
    confidence: float

    def within(self, limits: tuple[float, float, float]) -> bool:
        """Whether it is as near as that."""
        away, up, turned = limits
        return self.distance <= away and self.height <= up and self.angle <= turned


def main() -> None:
    options = _options()
    if options.command == "look":
        _look(options)
    else:
        _score(options)


# --- look --------------------------------------------------------------------------------------


def _look(options: argparse.Namespace) -> None:
    task = task_named(options.task)
    things: Sequence[Thing] | None = None
    if options.objects is not None:
        things, refused = load_things(options.objects, options.task)
        print(f"{len(things)} objects, {len(refused)} refused", flush=True)
    kind = "own" if things is None else "meshes"
    for seed in range(options.seed, options.seed + options.scenes):
        folder = options.out / options.task / kind / str(seed)
        if (folder / "done").exists():
            continue
        try:
            with task.reset(seed, Setup.ALL, things=things) as episode:
                _store(episode, folder)
        except SimError as error:
            print(f"{seed}: {error}", flush=True)


def _store(episode: Episode, folder: Path) -> None:
    """Clouds and right poses before each step of an episode that the oracle does."""
    for step in episode.task.task:
        place = folder / step.name
        place.mkdir(parents=True, exist_ok=True)
        episode.focus(step)
        for name, rig in RIGS.items():
            episode.rig = rig
            write_cloud(episode.observe_scene(), place / f"{name}_scene.ply")
            if step.action.holding:
                write_cloud(episode.observe_grasp(), place / f"{name}_grasp.ply")
        np.save(place / "right.npy", _right_poses(episode, step.action.holding))
        pose = oracle_pose(episode, step)
        if pose is None or not episode.execute(step, Motion.along_approach(pose, episode.gripper)):
            return
    (folder / "done").write_text(", ".join(episode.things))


def _right_poses(episode: Episode, holding: bool) -> Float[np.ndarray, "poses 4 4"]:
    """Poses that the oracle may choose from, whether the robot can reach them or not."""
    world = episode.world
    what = episode.task.parts[world.in_focus].what
    rng = np.random.default_rng(episode.seed)
    if holding:
        goals = itertools.islice(what.goals(world, rng, Variant.DEFAULT), GOALS)
        return np.stack([goal @ np.linalg.inv(world.T_gripper_item) for goal in goals])
    T_contact_gripper = np.linalg.inv(world.gripper.T_gripper_contact)
    grasps = itertools.chain.from_iterable(
        itertools.islice(some, GRASPS)
        for some in what.grasps(world.item.thing, rng, Variant.DEFAULT)
    )
    return np.stack([world.T_scene_item @ grasp @ T_contact_gripper for grasp in grasps])


# --- score -------------------------------------------------------------------------------------


def _score(options: argparse.Namespace) -> None:
    run = RunFolder(options.run)
    predictor = run.predictor(options.step)
    step = run.task.step(options.step)
    gripper = gripper_named("simulated")
    words = []
    for kind, name in itertools.product(("own", "meshes"), RIGS):
        best, tried = [], []
        folders = sorted((options.scenes / options.task / kind).glob("*"), key=lambda f: f.name)
        for folder in [f for f in folders if (f / "done").exists()][: options.most]:
            place = folder / options.step
            scene = read_cloud(place / f"{name}_scene.ply")
            grasp = read_cloud(place / f"{name}_grasp.ply") if step.action.holding else None
            found = predictor.sample(scene, grasp, n=ASKED, seed=0)
            right = np.load(place / "right.npy")
            feasible = Feasibility(step, gripper, scene, grasp)
            best.append(_scored(found, 0, right, grasp, gripper))
            tried.append(_scored(found, _first(found, feasible), right, grasp, gripper))
            if options.verbose:
                print(kind, name, folder.name, (folder / "done").read_text(), best[-1], tried[-1])
        if best:
            words.append(_sentence(kind, name, best, tried, step.action.holding))
    print(f"{options.run} {options.step}: " + "; ".join(words), flush=True)


def _sentence(
    kind: str, name: str, best: Sequence[Score], tried: Sequence[Score], holding: bool
) -> str:
    right, feasible = (
        f"{sum(score.within(RIGHT[holding]) for score in scores)} "
        f"({sum(score.within(EXACT) for score in scores)} exact)"
        for scores in (best, tried)
    )
    return f"{kind} {name} {right}, feasible {feasible} of {len(best)}"


def _first(found: RankedPoses, feasible: Feasibility) -> int:
    """The number of the first feasible pose; that of none if there is none."""
    verdicts = (bool(feasible(pose)) for pose in found.T_scene_gripper)
    return next((number for number, fine in enumerate(verdicts) if fine), len(found))


def _scored(
    found: RankedPoses,
    number: int,
    right: Float[np.ndarray, "poses 4 4"],
    grasp: PointCloud | None,
    gripper: Gripper,
) -> Score:
    """The score of one of the poses; that of no pose at all is as bad as can be."""
    if number >= len(found):
        return Score(9.0, 9.0, 180.0, 0.0)
    sure = float(found.confidence[number])
    return _compared(found.T_scene_gripper[number], right, sure, grasp, gripper)


def _compared(
    pose: Float[np.ndarray, "4 4"],
    right: Float[np.ndarray, "poses 4 4"],
    confidence: float,
    grasp: PointCloud | None,
    gripper: Gripper,
) -> Score:
    """A pose and the right one that is nearest, an angle of 25 degrees counting as 2.5 cm."""
    middle = gripper.T_gripper_contact[:3, 3]
    poses = right
    if grasp is None:
        contact = gripper.T_gripper_contact
        half = np.eye(4)
        half[:2, :2] = -np.eye(2)
        poses = np.concatenate([right, right @ contact @ half @ np.linalg.inv(contact)])
    else:
        middle = grasp.points.mean(axis=0)
    away = pose[:3, :3] @ middle + pose[:3, 3] - (poses[:, :3, :3] @ middle + poses[:, :3, 3])
    distance = np.linalg.norm(away, axis=1)
    angle = np.degrees(Rotation.from_matrix(poses[:, :3, :3].mT @ pose[:3, :3]).magnitude())
    best = int(np.argmin(distance + angle / 1000.0))
    return Score(
        float(distance[best]), float(abs(away[best, 2])), float(angle[best]), float(confidence)
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    look = commands.add_parser("look")
    look.add_argument("task")
    look.add_argument("out", type=Path)
    look.add_argument("--objects", type=Path)
    look.add_argument("--seed", type=int, default=2300)
    look.add_argument("--scenes", type=int, default=40)
    score = commands.add_parser("score")
    score.add_argument("scenes", type=Path)
    score.add_argument("run", type=Path)
    score.add_argument("--task", required=True)
    score.add_argument("--step", required=True)
    score.add_argument("--most", type=int, default=40)
    score.add_argument("--verbose", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()

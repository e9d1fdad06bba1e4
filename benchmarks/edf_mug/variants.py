"""Test scenes made from a left-out demonstration: moved, laid down, raised, cluttered, emptied.

Every variant is made of the demonstration's own points and a seed. Clutter is left out of the cloud
that is judged: the judge sees by colour, and clutter may have any.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from edf_mug.clutter import add_clutter, column_under
from edf_mug.cylinders import Array
from edf_mug.shapes import find_mug, find_table, is_green, is_red
from handful.clouds import PointCloud, concatenate
from handful.demos import Demonstration

MAX_SHIFT = 0.3
"""Metres that a whole scene is moved at most."""

RAISE = (0.05, 0.15)
"""Metres that a mug or hanger is raised."""

TILT = np.deg2rad((10.0, 30.0))
"""Radians that a hanger is tilted."""

_TRIES = 200


@dataclass(frozen=True, eq=False)
class TestScene:
    """What a model is asked, and what the judge looks at.

    Attributes:
        step: `pick` or `place`.
        variant: One of `VARIANTS[step]`.
        scene: The scene cloud that the model gets.
        grasp: The grasp cloud that the model gets, in the gripper frame; None when there is none.
        judged: The scene cloud without clutter, for the judge.
        target_motion: Rigid motion [4, 4] by which the target was moved in all, by itself or with
            the scene.
        grasp_motion: The same for the grasp cloud in the gripper frame.
        has_target: Whether there is something to pick, or to place on.
    """

    __test__ = False  # pytest: no test, in spite of the name

    step: str
    variant: str
    scene: PointCloud
    grasp: PointCloud | None
    judged: PointCloud
    target_motion: Array
    grasp_motion: Array
    has_target: bool = True

    def carried(self, pose: Array) -> Array:
        """Where a pose of the demonstration goes if it goes along with target and grasp cloud."""
        return self.target_motion @ pose @ np.linalg.inv(self.grasp_motion)

    def carried_back(self, pose: Array) -> Array:
        """The inverse of `carried`: a pose of this scene, as it would be in the demonstration."""
        return np.linalg.inv(self.target_motion) @ pose @ self.grasp_motion


def make_variant(
    demo: Demonstration,
    step: str,
    variant: str,
    seed: int,
    others: Sequence[Demonstration] = (),
) -> TestScene:
    """One test scene.

    Args:
        demo: The left-out demonstration.
        step: `pick` or `place`.
        variant: One of `VARIANTS[step]`.
        seed: The same demonstration, variant and seed give the same scene.
        others: Demonstrations whose things are pasted in as clutter.
    """
    if variant not in VARIANTS.get(step, ()):
        raise ValueError(f"step {step!r}, variant {variant!r}: have {VARIANTS}.")
    words = f"{demo.name} {step} {variant}"
    rng = np.random.default_rng([seed, zlib.crc32(words.encode())])
    shown = demo.step(step)
    start = TestScene(step, variant, shown.scene, shown.grasp, shown.scene, np.eye(4), np.eye(4))
    test = start
    for part in _RECIPES[variant]:
        test = part(test, rng, demo, others)
    return test


# --- parts of recipes --------------------------------------------------------------------------


def _moved(test: TestScene, rng: np.random.Generator, *_: object) -> TestScene:
    """The whole scene by any rotation and up to 0.3 m."""
    motion = np.eye(4)
    motion[:3, :3] = Rotation.random(random_state=rng).as_matrix()
    direction = rng.normal(size=3)
    motion[:3, 3] = direction / np.linalg.norm(direction) * rng.uniform(0, MAX_SHIFT)
    return replace(
        test,
        scene=test.scene.transformed(motion),
        judged=test.judged.transformed(motion),
        target_motion=motion @ test.target_motion,
    )


def _laid(test: TestScene, rng: np.random.Generator, *_: object) -> TestScene:
    """The mug on its side somewhere on the table, the handle beside or above it."""
    mug, rest, hanger = _parts(test.scene)
    found, table = find_mug(test.scene), find_table(test.scene)
    out = found.handle.out if found.handle is not None else np.array([1.0, 0.0, 0.0])
    frame = np.stack([out, np.cross(found.axis, out), found.axis], axis=1)
    for _ in range(_TRIES):
        yaw, roll = rng.uniform(-np.pi, np.pi), rng.uniform(-np.pi / 2, np.pi / 2)
        # Its axis becomes horizontal, its handle points up, then aside by `roll`.
        turn = Rotation.from_euler("ZXZ", [yaw, np.pi / 2, roll]).as_matrix()
        to_up = Rotation.from_euler("z", np.pi / 2).as_matrix()
        placed = (mug.points.astype(np.float64) - found.rim) @ frame @ to_up.T @ turn.T
        motion = np.eye(4)
        motion[:3, :3] = turn @ to_up @ frame.T
        motion[:2, 3] = rng.uniform(-0.15, 0.15, 2) + table.point[:2]
        motion[2, 3] = table.point[2] - placed[:, 2].min()
        motion[:3, 3] -= motion[:3, :3] @ found.rim
        laid = mug.transformed(motion)
        if _gap(laid, hanger) > 0.06:
            return _rearranged(test, [rest, laid], motion)
    raise RuntimeError("no free place on the table for the mug.")


def _raised(test: TestScene, rng: np.random.Generator, *_: object) -> TestScene:
    """The target 5 to 15 cm higher; a mug on a column in half of the scenes."""
    target, rest, _ = _parts(test.scene, test.step)
    rise = np.eye(4)
    rise[2, 3] = rng.uniform(*RAISE)
    pieces = [rest, target.transformed(rise)]
    if test.step == "pick" and rng.random() < 0.5:
        pieces.append(column_under(find_mug(pieces[1]), rise[2, 3], rng))
    return _rearranged(test, pieces, rise)


def _tilted(test: TestScene, rng: np.random.Generator, *_: object) -> TestScene:
    """The hanger turned by 10 to 30 degrees about a level line through its foot."""
    hanger, rest, _ = _parts(test.scene, test.step)
    points = hanger.points.astype(np.float64)
    foot = points[points[:, 2] < points[:, 2].min() + 0.02].mean(axis=0)
    azimuth = rng.uniform(-np.pi, np.pi)
    axis = np.array([np.cos(azimuth), np.sin(azimuth), 0.0])
    motion = np.eye(4)
    motion[:3, :3] = Rotation.from_rotvec(rng.uniform(*TILT) * axis).as_matrix()
    motion[:3, 3] = foot - motion[:3, :3] @ foot
    return _rearranged(test, [rest, hanger.transformed(motion)], motion)


def _held_otherwise(test: TestScene, rng: np.random.Generator, *_: object) -> TestScene:
    """The grasp cloud moved in the gripper frame: any rotation about its middle, up to 5 cm."""
    assert test.grasp is not None
    middle = test.grasp.points.mean(axis=0).astype(np.float64)
    motion = np.eye(4)
    motion[:3, :3] = Rotation.random(random_state=rng).as_matrix()
    motion[:3, 3] = middle - motion[:3, :3] @ middle + rng.uniform(-0.05, 0.05, 3)
    return replace(test, grasp=test.grasp.transformed(motion), grasp_motion=motion)


def _cluttered(
    test: TestScene, rng: np.random.Generator, _: object, others: Sequence[Demonstration]
) -> TestScene:
    """Three or four pieces of other scenes on the table; none near the target."""
    return replace(test, scene=add_clutter(test.scene, others, rng))


def _emptied(test: TestScene, *_: object) -> TestScene:
    """The target cut out; the table keeps the hole it left."""
    _, rest, _ = _parts(test.scene, test.step)
    return replace(test, scene=rest, judged=rest, has_target=False)


def _never_there(
    test: TestScene, _: np.random.Generator, demo: Demonstration, *__: object
) -> TestScene:
    """For the pick: the scene of the place step, seen when the mug was gone."""
    scene = demo.step("place").scene
    return replace(test, scene=scene, judged=scene, has_target=False)


Part = Callable[..., TestScene]

_RECIPES: dict[str, tuple[Part, ...]] = {
    "as_is": (),
    "moved": (_moved,),
    "laid": (_laid,),
    "raised": (_raised,),
    "tilted": (_tilted,),
    "held_otherwise": (_held_otherwise,),
    "clutter": (_cluttered,),
    "absent": (_emptied,),
    "absent_moved": (_emptied, _moved),
    "absent_clutter": (_emptied, _cluttered),
    "absent_seen": (_never_there,),
}

VARIANTS: dict[str, tuple[str, ...]] = {
    "pick": (
        "as_is", "moved", "laid", "raised", "clutter",
        "absent", "absent_moved", "absent_clutter", "absent_seen",
    ),
    "place": (
        "as_is", "moved", "raised", "tilted", "held_otherwise", "clutter",
        "absent", "absent_moved", "absent_clutter",
    ),
}  # fmt: skip
"""The variants of each step."""


# --- cutting -----------------------------------------------------------------------------------


def _parts(scene: PointCloud, step: str = "pick") -> tuple[PointCloud, PointCloud, PointCloud]:
    """The target (mug to pick, hanger to place on), all the rest, and the hanger."""
    target = is_red(scene) if step == "pick" else is_green(scene)
    # Mixed colours at the edge of the target belong to it.
    other = is_green(scene) if step == "pick" else is_red(scene)
    odd = ~target & ~other & (np.ptp(scene.require_colors(), axis=1) > 0.08)
    if odd.any():
        near, _ = cKDTree(scene.points[target]).query(scene.points[odd])
        target[np.flatnonzero(odd)[near < 0.01]] = True
    return scene.selected(target), scene.selected(~target), scene.selected(is_green(scene))


def _gap(first: PointCloud, second: PointCloud) -> float:
    """Smallest distance between two clouds, metres."""
    return float(cKDTree(first.points).query(second.points)[0].min())


def _rearranged(test: TestScene, pieces: Sequence[PointCloud], motion: Array) -> TestScene:
    """A scene of these pieces, in which the target was moved by `motion`."""
    scene = concatenate(pieces)
    return replace(test, scene=scene, judged=scene, target_motion=motion @ test.target_motion)

"""Grippers, poses and surfaces that several tests of the policy need."""

import numpy as np
from scipy.spatial.transform import Rotation

from handful.demos import ContactFrame, Gripper, HandBox, HandShape


def random_rotation(rng: np.random.Generator) -> Rotation:
    return Rotation.random(random_state=int(rng.integers(2**31)))


def wxyz(rotation: Rotation) -> tuple[float, ...]:
    return tuple(np.roll(rotation.as_quat(), 1).tolist())


def random_gripper(seed: int) -> Gripper:
    """A contact frame anywhere, turned in any way, and a hand of four turned boxes behind it."""
    rng = np.random.default_rng(seed)
    turn, position = random_rotation(rng), rng.uniform(-0.2, 0.2, 3)
    axis = "xy"[seed % 2]

    def box(center: list[float], size: tuple[float, ...], side: int = 0) -> HandBox:
        if axis == "y":
            center = [-center[1], center[0], center[2]]
            size = (size[1], size[0], size[2])
        middle = turn.apply(center) + position
        return HandBox(tuple(middle.tolist()), size, wxyz(turn), side)

    boxes = (
        box([0.0, 0.0, -0.1], (0.12, 0.05, 0.04)),
        box([0.0, 0.0, -0.14], (0.05, 0.05, 0.04)),
        box([0.046, 0.0, -0.037], (0.012, 0.024, 0.086), 1),
        box([-0.046, 0.0, -0.037], (0.012, 0.024, 0.086), -1),
    )
    contact = ContactFrame(tuple(position.tolist()), wxyz(turn))
    return Gripper(contact, axis, 0.08, HandShape(boxes))


def random_poses(count: int, seed: int, reach: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    poses = np.tile(np.eye(4), (count, 1, 1))
    poses[:, :3, :3] = Rotation.random(count, random_state=seed).as_matrix()
    poses[:, :3, 3] = rng.uniform(-reach, reach, (count, 3))
    return poses


def contact_at(gripper: Gripper, *position: float) -> np.ndarray:
    """T_scene_gripper with the contact there, the approach straight down, opening along x."""
    T_scene_contact = np.diag([1.0, -1.0, -1.0, 1.0])
    T_scene_contact[:3, 3] = position
    return T_scene_contact @ np.linalg.inv(gripper.T_gripper_contact)


def box_surface(
    center: tuple[float, float, float], size: tuple[float, float, float], spacing: float = 0.002
) -> np.ndarray:
    """Points on the six faces of a box, on a grid."""
    faces = []
    for axis in range(3):
        along = [
            np.arange(-size[i] / 2, size[i] / 2 + 1e-9, spacing) for i in range(3) if i != axis
        ]
        one, two = (grid.ravel() for grid in np.meshgrid(*along))
        for side in (-0.5, 0.5):
            faces.append(np.insert(np.stack([one, two], axis=1), axis, side * size[axis], axis=1))
    return np.concatenate(faces) + np.array(center)


def level_plane(size: float = 0.3, height: float = 0.0, spacing: float = 0.002) -> np.ndarray:
    """Points of a horizontal square about the z axis, on a grid."""
    line = np.arange(-size / 2, size / 2, spacing)
    x, y = (grid.ravel() for grid in np.meshgrid(line, line))
    return np.stack([x, y, np.full(len(x), height)], axis=1)

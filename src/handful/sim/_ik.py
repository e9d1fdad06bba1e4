"""Joint angles for gripper poses, in closed form.

The arm has seven joints, so a pose leaves one free. When the last angle is given, the rest is
geometry: the wrist W, where the axes of joints 5 and 6 meet, is known, and so is its distance from
the shoulder S, which gives the elbow's angle q4. The forearm y4 then has a known angle with S-W and
is at right angles to the axis of joint 6, which leaves two directions; shoulder (q1, q2, q3) and
wrist (q5, q6) are Euler angles. A scan over q7 finds every way to reach a pose, up to the scan's
step, in a millisecond, and its "no" is as quick as its "yes".
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from handful.sim._arm import BASE, FLANGE, HOME, LIMITS, LINK_A, LINK_ALPHA, LINK_D
from handful.sim.objects import Pose

Joints = Float[np.ndarray, "7"]
Matrices = Float[np.ndarray, "*batch 3 3"]
Vectors = Float[np.ndarray, "*batch 3"]

MARGIN = 0.02
"""Radians that a plan keeps away from the joints' limits: servos lag and overshoot a little."""
LARGEST_STEP = 0.6
"""Radians that a joint may turn between neighbouring poses of a path."""

_LAST = np.linspace(LIMITS[6, 0] + MARGIN, LIMITS[6, 1] - MARGIN, 57)
"""Angles of the last joint that are tried: every 0.1 radians."""
_ELBOW, _UPPER, _FORE, _WRIST = LINK_A[3], LINK_D[2], LINK_D[4], LINK_A[6]
_SHOULDER = BASE + np.array([0.0, 0.0, LINK_D[0]])
_WAYS = [(side, flip) for side in (-1.0, 1.0) for flip in (-1.0, 1.0)]
"""Which of the two forearm directions, and which sign of q2."""


def forward(joints: Joints) -> Pose:
    """T_scene_gripper of joint angles."""
    return link_poses(joints)[-1]


def link_poses(joints: Joints) -> list[Pose]:
    """T_scene_link of the base and of the seven links, and T_scene_gripper."""
    T_scene_link = np.eye(4)
    T_scene_link[:3, 3] = BASE
    poses = [T_scene_link]
    for angle, a, d, alpha in zip(joints, LINK_A, LINK_D, LINK_ALPHA, strict=True):
        T_link_next = np.eye(4)
        T_link_next[:3, :3] = _about_x(alpha) @ _about_z(np.array(angle))
        T_link_next[:3, 3] = [a, -d * np.sin(alpha), d * np.cos(alpha)]
        T_scene_link = T_scene_link @ T_link_next
        poses.append(T_scene_link)
    T_link_gripper = np.eye(4)
    T_link_gripper[:3, :3] = _about_z(np.array(-np.pi / 4))
    T_link_gripper[2, 3] = FLANGE
    return [*poses, T_scene_link @ T_link_gripper]


def solve(T_scene_gripper: Pose) -> Joints | None:
    """Joint angles within limits for a pose of the gripper, or None."""
    found = plan([T_scene_gripper])
    return None if found is None else found[0]


def plan(targets: list[Pose]) -> list[Joints] | None:
    """Joint angles along a path of T_scene_gripper without jumps, or None.

    The last joint stays as it is all the way. Of all ways to go, the one nearest to the arm's home
    is taken, with a preference for those that turn little.
    """
    last, way = np.repeat(_LAST, len(_WAYS)), np.tile(np.arange(len(_WAYS)), len(_LAST))
    first = _all_ways(targets[:1], last, way)[0]
    good = _inside(first)
    if not good.any():
        return None
    path = np.concatenate([first[good][None], _all_ways(targets[1:], last[good], way[good])])
    step = np.abs(np.diff(path, axis=0)).max(axis=(0, 2), initial=0.0)
    away = ((path[[0, -1]] - HOME) ** 2).sum(axis=(0, 2))
    # NaN, for what cannot be reached, is neither inside nor less than anything.
    usable = _inside(path).all(axis=0) & (step < LARGEST_STEP)
    if not usable.any():
        return None
    best = int(np.where(usable, away + 20.0 * step, np.inf).argmin())
    return list(path[:, best])


def _inside(joints: Float[np.ndarray, "*batch 7"]) -> Bool[np.ndarray, "*batch"]:
    inside = (joints > LIMITS[:, 0] + MARGIN) & (joints < LIMITS[:, 1] - MARGIN)
    return np.asarray(inside.all(axis=-1))


def _all_ways(
    targets: list[Pose], last: Float[np.ndarray, "ways"], way: Int[np.ndarray, "ways"]
) -> Float[np.ndarray, "targets ways 7"]:
    """Joint angles for given angles of the last joint; NaN where there are none."""
    if not targets:
        return np.empty((0, len(last), 7))
    poses = np.repeat(np.stack(targets), len(last), axis=0)
    last, way = np.tile(last, len(targets)), np.tile(way, len(targets))
    side, flip = np.array(_WAYS)[way].T
    turn7 = poses[:, :3, :3] @ _about_z(np.array(np.pi / 4))
    turn6 = turn7 @ np.swapaxes(_about_x(np.pi / 2) @ _about_z(last), -1, -2)
    wrist = poses[:, :3, 3] - FLANGE * poses[:, :3, 2] - _WRIST * turn6[..., 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        found = _upstream(wrist - _SHOULDER, turn6, last, side, flip)
    return found.reshape(len(targets), -1, 7)


def _upstream(
    to_wrist: Vectors,
    turn6: Matrices,
    last: Float[np.ndarray, "ways"],
    side: Float[np.ndarray, "ways"],
    flip: Float[np.ndarray, "ways"],
) -> Float[np.ndarray, "ways 7"]:
    far = np.linalg.norm(to_wrist, axis=1)
    # |S-W|^2 = still + along cos q4 + across sin q4. The other root has the elbow bent backwards.
    still = 2.0 * _ELBOW**2 + _UPPER**2 + _FORE**2
    along, across = 2.0 * (_UPPER * _FORE - _ELBOW**2), -2.0 * _ELBOW * (_UPPER + _FORE)
    q4 = np.arctan2(across, along) - np.arccos((far**2 - still) / np.hypot(along, across))
    c4, s4 = np.cos(q4), np.sin(q4)
    # The wrist in frame 3 is (x, 0, z), and the forearm there is (-s4, 0, c4).
    x = _ELBOW - _ELBOW * c4 - _FORE * s4
    z = _UPPER - _ELBOW * s4 + _FORE * c4
    ahead = to_wrist / far[:, None]
    axis6 = turn6[..., 2]
    lean = (axis6 * ahead).sum(axis=1)
    beside = axis6 - lean[:, None] * ahead
    size = np.linalg.norm(beside, axis=1)
    beside = beside / size[:, None]
    first = (c4 * z - s4 * x) / far
    second = -first * lean / size
    third = side * np.sqrt(1.0 - first**2 - second**2)
    forearm = (
        first[:, None] * ahead + second[:, None] * beside + third[:, None] * np.cross(ahead, beside)
    )
    spread = (x * c4 + z * s4)[:, None]
    x3 = (c4[:, None] * to_wrist - z[:, None] * forearm) / spread
    z3 = (s4[:, None] * to_wrist + x[:, None] * forearm) / spread
    turn3 = np.stack([x3, np.cross(z3, x3), z3], axis=-1)
    q2 = flip * np.arccos(np.clip(z3[:, 2], -1.0, 1.0))
    q1 = np.arctan2(flip * z3[:, 1], flip * z3[:, 0])
    q3 = np.arctan2(flip * turn3[:, 2, 1], -flip * turn3[:, 2, 0])
    turn4 = turn3 @ _about_x(np.pi / 2) @ _about_z(q4)
    turn46 = np.swapaxes(turn4, -1, -2) @ turn6
    q5 = np.arctan2(turn46[:, 0, 2], turn46[:, 2, 2])
    q6 = np.arctan2(turn46[:, 1, 0], turn46[:, 1, 1])
    q6 = np.where(q6 < LIMITS[5, 0], q6 + 2.0 * np.pi, q6)
    return np.stack([q1, q2, q3, q4, q5, q6, last], axis=1)


def _about_z(angle: Float[np.ndarray, "*batch"]) -> Matrices:
    c, s = np.cos(angle), np.sin(angle)
    turn = np.zeros((*np.shape(angle), 3, 3))
    turn[..., 0, 0], turn[..., 0, 1], turn[..., 1, 0], turn[..., 1, 1] = c, -s, s, c
    turn[..., 2, 2] = 1.0
    return turn


def _about_x(angle: float) -> Float[np.ndarray, "3 3"]:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1.0, 0, 0], [0, c, -s], [0, s, c]])

"""The robot: an arm with the Panda's kinematics and joint limits, and a hand at its flange.

The shapes are our own and simple. Hand and fingers touch things; the links are only seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from handful.demos import Gripper
from handful.sim._errors import load_extra
from handful.sim._hand import GROUP_ARM, SIMULATED, add_hand

# Modified Denavit-Hartenberg numbers and limits as the maker publishes them, metres and radians.
LINK_A = (0.0, 0.0, 0.0, 0.0825, -0.0825, 0.0, 0.088)
LINK_D = (0.333, 0.0, 0.316, 0.0, 0.384, 0.0, 0.0)
LINK_ALPHA = (0.0, -np.pi / 2, np.pi / 2, np.pi / 2, -np.pi / 2, np.pi / 2, np.pi / 2)
FLANGE = 0.107
LIMITS = np.array(
    [
        [-2.8973, 2.8973],
        [-1.7628, 1.7628],
        [-2.8973, 2.8973],
        [-3.0718, -0.0698],
        [-2.8973, 2.8973],
        [-0.0175, 3.7525],
        [-2.8973, 2.8973],
    ]
)
HOME = np.array([0.0, -0.6, 0.0, -2.3, 0.0, 1.7, 0.785])
BASE = np.array([-0.48, 0.0, 0.0])
"""Where the arm stands in the scene, metres: the whole workspace is in its reach."""

LINK_WHITE = (0.90, 0.91, 0.93, 1.0)
JOINT_DARK = (0.28, 0.31, 0.36, 1.0)


def add_arm(spec: Any, collide: tuple[int, int], gripper: Gripper = SIMULATED) -> None:
    """Add arm, hand, fingers and their motors to a model.

    Args:
        spec: A `mujoco.MjSpec`.
        collide: Contact type and affinity of the hand's geoms.
        gripper: The hand; one that `check_hand` accepts.
    """
    mj = load_extra("mujoco")
    parent = spec.worldbody.add_body(name="link0", pos=BASE)
    _see(mj, parent, 0)
    for number in range(7):
        alpha, a, d = LINK_ALPHA[number], LINK_A[number], LINK_D[number]
        body = parent.add_body(
            name=f"link{number + 1}",
            pos=[a, -d * np.sin(alpha), d * np.cos(alpha)],
            quat=[np.cos(alpha / 2), np.sin(alpha / 2), 0.0, 0.0],
            gravcomp=1.0,
            mass=1.2,
            inertia=[0.01, 0.01, 0.01],
            explicitinertial=True,
        )
        body.add_joint(
            name=f"joint{number + 1}",
            type=mj.mjtJoint.mjJNT_HINGE,
            axis=[0, 0, 1],
            range=LIMITS[number],
            limited=mj.mjtLimited.mjLIMITED_TRUE,
            armature=0.3,
            damping=[2.0, 0.0, 0.0],
        )
        _see(mj, body, number + 1)
        motor = spec.add_actuator(name=f"servo{number + 1}", target=f"joint{number + 1}")
        motor.trntype = mj.mjtTrn.mjTRN_JOINT
        motor.set_to_position(kp=6000.0, kv=260.0)
        parent = body
    hand = parent.add_body(
        name="hand", pos=[0, 0, FLANGE], quat=[np.cos(-np.pi / 8), 0, 0, np.sin(-np.pi / 8)],
        gravcomp=1.0, mass=0.6, inertia=[2e-3, 2e-3, 1e-3], ipos=[0, 0, 0.05],
        explicitinertial=True,
    )  # fmt: skip
    add_hand(mj, spec, hand, gripper, collide)


@dataclass(frozen=True)
class LinkCapsule:
    """A part of the arm: all points within `radius` metres of a line, in the frame of its link.

    Attributes:
        link: Number of the link; 0 is the base.
        start: One end of the line, metres.
        end: The other.
        radius: Metres.
        rgba: Its colour.
    """

    link: int
    start: tuple[float, ...]
    end: tuple[float, ...]
    radius: float
    rgba: tuple[float, ...]


@lru_cache(maxsize=1)
def arm_capsules() -> tuple[LinkCapsule, ...]:
    """What the arm looks like: a foot, a drum at each joint, and a bar to the next one."""
    parts = [LinkCapsule(0, (0, 0, 0.0), (0, 0, 0.16), 0.075, LINK_WHITE)]
    for number in range(7):
        drum = 0.062 if number < 4 else 0.05
        color = JOINT_DARK if number % 2 else LINK_WHITE
        parts.append(LinkCapsule(number + 1, (0, 0, -drum), (0, 0, drum), drum, color))
        if number == 6:
            parts.append(LinkCapsule(7, (0, 0, 0), (0, 0, FLANGE), 0.04, JOINT_DARK))
            break
        alpha, a, d = LINK_ALPHA[number + 1], LINK_A[number + 1], LINK_D[number + 1]
        end = np.array([a, -d * np.sin(alpha), d * np.cos(alpha)])
        if np.linalg.norm(end) > 0.02:
            parts.append(LinkCapsule(number + 1, (0, 0, 0), tuple(end), 0.05, LINK_WHITE))
    return tuple(parts)


def _see(mj: Any, body: Any, link: int) -> None:
    """Add what a link looks like to its body."""
    for part in arm_capsules():
        if part.link == link:
            body.add_geom(
                type=mj.mjtGeom.mjGEOM_CAPSULE, fromto=[*part.start, *part.end],
                size=[part.radius, 0, 0], rgba=part.rgba, group=GROUP_ARM, contype=0,
                conaffinity=0, mass=0.0,
            )  # fmt: skip

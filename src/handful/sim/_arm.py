"""The robot: an arm with the Panda's kinematics and joint limits, and a parallel gripper.

Our own simple shapes. The hand and the fingers are bodies that touch; the links are only seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from handful.sim._errors import load_extra

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

TIP = 0.15
"""Height of the finger tips in the gripper frame, metres."""
OPENING = 0.08
"""Distance between the open fingers, metres."""
FINGER_THICK, FINGER_HALF = 0.009, 0.011
PALM_HALF, PALM_LOW, PALM_HIGH = (0.058, 0.024), 0.02, 0.062

GRIP_FORCE = 60.0
"""Newton, shared by both fingers."""
CLOSED_TARGET = -0.04
"""Set point of a closing finger, metres: beyond closed, so that the force is at its limit."""

LINK_WHITE = (0.90, 0.91, 0.93, 1.0)
JOINT_DARK = (0.28, 0.31, 0.36, 1.0)
HAND_GREY = (0.55, 0.56, 0.58, 1.0)
PAD_DARK = (0.42, 0.43, 0.46, 1.0)

GROUP_SCENE, GROUP_OBJECT, GROUP_HAND, GROUP_ARM, GROUP_TOUCH = 0, 1, 2, 3, 4
"""Groups of what is seen; what touches is never seen."""


def add_arm(spec: Any, collide: tuple[int, int]) -> None:
    """Add arm, hand, fingers and their motors to a model.

    Args:
        spec: A `mujoco.MjSpec`.
        collide: Contact type and affinity of the hand's geoms.
    """
    mj = load_extra("mujoco")
    parent = spec.worldbody.add_body(name="link0", pos=BASE)
    _see(mj, parent, (0, 0, 0.0), (0, 0, 0.16), 0.075, LINK_WHITE)
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
        _see_link(mj, body, number)
        motor = spec.add_actuator(name=f"servo{number + 1}", target=f"joint{number + 1}")
        motor.trntype = mj.mjtTrn.mjTRN_JOINT
        motor.set_to_position(kp=6000.0, kv=260.0)
        parent = body
    _add_hand(mj, spec, parent, collide)


def _add_hand(mj: Any, spec: Any, wrist: Any, collide: tuple[int, int]) -> None:
    hand = wrist.add_body(
        name="hand", pos=[0, 0, FLANGE], quat=[np.cos(-np.pi / 8), 0, 0, np.sin(-np.pi / 8)],
        gravcomp=1.0, mass=0.6, inertia=[2e-3, 2e-3, 1e-3], ipos=[0, 0, 0.05],
        explicitinertial=True,
    )  # fmt: skip
    middle = (PALM_LOW + PALM_HIGH) / 2
    palm = [PALM_HALF[0], PALM_HALF[1], (PALM_HIGH - PALM_LOW) / 2]
    _see(mj, hand, (0, 0, 0.0), (0, 0, PALM_LOW), 0.036, HAND_GREY, GROUP_HAND)
    hand.add_geom(
        type=mj.mjtGeom.mjGEOM_BOX, size=palm, pos=[0, 0, middle], rgba=HAND_GREY,
        group=GROUP_HAND, contype=collide[0], conaffinity=collide[1], name="palm",
    )  # fmt: skip
    for name, side in (("left", 1.0), ("right", -1.0)):
        finger = hand.add_body(
            name=f"finger_{name}", gravcomp=1.0, mass=0.06, inertia=[2e-5, 2e-5, 2e-5],
            ipos=[side * FINGER_THICK / 2, 0, 0.11], explicitinertial=True,
        )  # fmt: skip
        finger.add_joint(
            name=f"slide_{name}", type=mj.mjtJoint.mjJNT_SLIDE, axis=[side, 0, 0],
            range=[0.0, OPENING / 2], limited=mj.mjtLimited.mjLIMITED_TRUE, armature=0.05,
            damping=[5.0, 0.0, 0.0], solref_limit=[0.004, 1.0],
        )  # fmt: skip
        half = [FINGER_THICK / 2, FINGER_HALF, (TIP - PALM_HIGH) / 2]
        finger.add_geom(
            type=mj.mjtGeom.mjGEOM_BOX, size=half, group=GROUP_HAND, rgba=PAD_DARK,
            pos=[side * FINGER_THICK / 2, 0, (TIP + PALM_HIGH) / 2], name=f"pad_{name}",
            contype=collide[0], conaffinity=collide[1], friction=[1.3, 0.02, 0.001],
            solref=[0.004, 1.0],
        )  # fmt: skip
    # Both fingers move alike, as on the Panda: two free ones would let a held object drift.
    twin = spec.add_equality(
        type=mj.mjtEq.mjEQ_JOINT, name1="slide_left", name2="slide_right", name="twin"
    )
    twin.data[:5] = [0.0, 1.0, 0.0, 0.0, 0.0]
    twin.solref = [0.004, 1.0]
    grip = spec.add_actuator(name="grip", target="slide_left")
    grip.trntype = mj.mjtTrn.mjTRN_JOINT
    grip.set_to_position(kp=1600.0, kv=40.0)
    grip.forcerange = [-GRIP_FORCE, GRIP_FORCE]
    grip.forcelimited = mj.mjtLimited.mjLIMITED_TRUE


def _see_link(mj: Any, body: Any, number: int) -> None:
    """A dark drum at the joint and a white bar to the next one."""
    drum = 0.062 if number < 4 else 0.05
    _see(mj, body, (0, 0, -drum), (0, 0, drum), drum, JOINT_DARK if number % 2 else LINK_WHITE)
    if number == 6:
        _see(mj, body, (0, 0, 0), (0, 0, FLANGE), 0.04, JOINT_DARK)
        return
    alpha, a, d = LINK_ALPHA[number + 1], LINK_A[number + 1], LINK_D[number + 1]
    end = np.array([a, -d * np.sin(alpha), d * np.cos(alpha)])
    if np.linalg.norm(end) > 0.02:
        _see(mj, body, (0, 0, 0), tuple(end), 0.05, LINK_WHITE)


def _see(
    mj: Any,
    body: Any,
    start: tuple[float, ...],
    end: tuple[float, ...],
    radius: float,
    rgba: tuple[float, ...],
    group: int = GROUP_ARM,
) -> None:
    kind = mj.mjtGeom.mjGEOM_CYLINDER if group == GROUP_HAND else mj.mjtGeom.mjGEOM_CAPSULE
    body.add_geom(
        type=kind, fromto=[*start, *end], size=[radius, 0, 0], rgba=rgba, group=group,
        contype=0, conaffinity=0, mass=0.0,
    )  # fmt: skip


def finger_setpoint(opening: float) -> float:
    """What the grip motor must hold for a distance between the fingers, metres."""
    return opening / 2


def open_hand_points() -> Float[np.ndarray, "points 3"]:
    """Points in and on the palm and the open fingers, gripper frame, metres."""
    inner, outer = OPENING / 2, OPENING / 2 + FINGER_THICK
    boxes = [
        ((-PALM_HALF[0], -PALM_HALF[1], PALM_LOW), (PALM_HALF[0], PALM_HALF[1], PALM_HIGH)),
        ((inner, -FINGER_HALF, PALM_HIGH), (outer, FINGER_HALF, TIP)),
        ((-outer, -FINGER_HALF, PALM_HIGH), (-inner, FINGER_HALF, TIP)),
    ]
    grids = []
    for low, high in boxes:
        axes = [np.linspace(a, b, 5) for a, b in zip(low, high, strict=True)]
        grids.append(np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 3))
    return np.concatenate(grids)

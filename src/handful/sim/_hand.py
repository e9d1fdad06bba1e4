"""The hand at the arm's flange: any parallel gripper that boxes describe."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from handful.demos import HANDS, Gripper, HandBox, gripper_named
from handful.errors import OptionError

SIMULATED = gripper_named("simulated")
"""The hand of the simulated robot unless another one is asked for."""

TIP_BEYOND_CONTACT = 0.005
"""Metres along the approach from the contact to where oracles put the finger tips."""
GRIP_FORCE = 60.0
"""Newton, shared by both fingers."""
CLOSED_TARGET = -0.04
"""Set point of a closing finger, metres: beyond closed, so that the force is at its limit."""
MOST_BEYOND = 0.002
"""Metres that a box may reach behind the flange, and a closed finger beyond the middle."""
LARGEST_GAP = 0.03
"""Metres between the flange and the hand's nearest box; a hand that begins farther away is
described in another frame."""

HAND_GREY = (0.55, 0.56, 0.58, 1.0)
PAD_DARK = (0.42, 0.43, 0.46, 1.0)

GROUP_SCENE, GROUP_OBJECT, GROUP_HAND, GROUP_ARM, GROUP_TOUCH = 0, 1, 2, 3, 4
"""Groups of what is seen; what touches is never seen, but for the hand's boxes."""

_FINGER_MASS_BEHIND_TIP = 0.04


def check_hand(gripper: Gripper) -> None:
    """Refuse a hand that the simulated arm cannot carry.

    Args:
        gripper: Its frame must be the flange, and boxes must describe all of it.

    Raises:
        OptionError: It cannot be simulated, with the reason and the hands that can.
    """
    reason = _why_not(gripper)
    if reason:
        able = ", ".join(name for name, hand in HANDS.items() if not _why_not(hand))
        raise OptionError(
            f"gripper {gripper.name or 'without a name'!r} cannot be simulated: {reason}. Use one "
            f"of {able}, or describe palm and fingers by boxes in a gripper frame at the flange."
        )


def _why_not(gripper: Gripper) -> str:
    shape = gripper.shape
    if shape is None or not shape.boxes:
        return "no boxes describe it"
    if shape.meshes:
        return "a mesh describes a part of it"
    if {box.side for box in shape.boxes} != {-1, 0, 1}:
        return "it needs a box of the palm (side 0) and one of each finger (sides 1 and -1)"
    low = min(float(box.surface()[0][:, 2].min()) for box in shape.boxes)
    if not -MOST_BEYOND <= low <= LARGEST_GAP:
        return (
            f"its frame is not at the flange: its lowest box begins at z = {low:.3f} m, "
            f"and 0 to {LARGEST_GAP} m is right"
        )
    T_gripper_contact = gripper.T_gripper_contact
    if T_gripper_contact[2, 2] < 0.5:
        return "its direction of approach is not that of the flange's z axis"
    closed = gripper.with_width(0.0).shape
    for box in closed.boxes if closed is not None else ():
        if not box.side:
            continue
        across = (box.surface()[0] - T_gripper_contact[:3, 3]) @ T_gripper_contact[:3, 0]
        if (box.side * across).min() < -MOST_BEYOND:
            return "its fingers do not move straight: closed, they would be in each other"
    return ""


def add_hand(mj: Any, spec: Any, hand: Any, gripper: Gripper, collide: tuple[int, int]) -> None:
    """Add the boxes of a hand, its two finger joints and its motor to a model.

    Args:
        mj: The package `mujoco`.
        spec: A `mujoco.MjSpec`.
        hand: The body whose frame is the gripper frame.
        gripper: What the hand is.
        collide: Contact type and affinity of the hand's geoms.
    """
    assert gripper.shape is not None
    for number, box in enumerate(box for box in gripper.shape.boxes if box.side == 0):
        _add_box(mj, hand, box, np.array(box.center), f"palm{number}", collide)
    for name, side in (("left", 1), ("right", -1)):
        _add_finger(mj, hand, gripper, name, side, collide)
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


def _add_finger(
    mj: Any, hand: Any, gripper: Gripper, name: str, side: int, collide: tuple[int, int]
) -> None:
    """One finger: its boxes, closed when the slide is at zero."""
    assert gripper.shape is not None
    outward = side * gripper.T_gripper_contact[:3, 0]
    approach = gripper.T_gripper_contact[:3, 2]
    boxes = [box for box in gripper.shape.boxes if box.side == side]
    closed = [np.array(box.center) - gripper.opening / 2 * outward for box in boxes]
    tip = max(float((box.surface()[0] @ approach).max()) for box in boxes)
    middle = np.mean(closed, axis=0)
    mass_at = middle + (tip - _FINGER_MASS_BEHIND_TIP - middle @ approach) * approach
    finger = hand.add_body(
        name=f"finger_{name}", gravcomp=1.0, mass=0.06, inertia=[2e-5, 2e-5, 2e-5],
        ipos=mass_at, explicitinertial=True,
    )  # fmt: skip
    finger.add_joint(
        name=f"slide_{name}", type=mj.mjtJoint.mjJNT_SLIDE, axis=outward,
        range=[0.0, gripper.opening / 2], limited=mj.mjtLimited.mjLIMITED_TRUE, armature=0.05,
        damping=[5.0, 0.0, 0.0], solref_limit=[0.004, 1.0],
    )  # fmt: skip
    for number, (box, center) in enumerate(zip(boxes, closed, strict=True)):
        label = f"pad_{name}{number}"
        _add_box(mj, finger, box, center, label, collide, PAD_DARK, friction=[1.3, 0.02, 0.001],
                 solref=[0.004, 1.0])  # fmt: skip


def _add_box(
    mj: Any,
    body: Any,
    box: HandBox,
    center: Float[np.ndarray, "3"],
    name: str,
    collide: tuple[int, int],
    rgba: tuple[float, ...] = HAND_GREY,
    **more: Any,
) -> None:
    body.add_geom(
        type=mj.mjtGeom.mjGEOM_BOX, size=np.array(box.size) / 2, pos=center, quat=box.quat_wxyz,
        rgba=rgba, group=GROUP_HAND, contype=collide[0], conaffinity=collide[1], name=name, **more,
    )  # fmt: skip


def finger_setpoint(opening: float) -> float:
    """What the grip motor must hold for a distance between the fingers, metres."""
    return opening / 2


def open_hand_points(gripper: Gripper) -> Float[np.ndarray, "points 3"]:
    """Points in and on the boxes of the open hand, gripper frame, metres."""
    assert gripper.shape is not None
    grids = []
    for box in gripper.shape.boxes:
        corners, _ = box.surface()
        # Corners are numbered with z fastest and x slowest.
        edges = [corners[number] - corners[0] for number in (4, 2, 1)]
        shares = np.stack(np.meshgrid(*[np.linspace(0, 1, 5)] * 3), axis=-1).reshape(-1, 3)
        grids.append(corners[0] + shares @ np.stack(edges))
    return np.concatenate(grids)

"""Whether poses of one gripper may be executed by another one."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from handful.demos import Gripper
from handful.errors import OptionError

SAME_PLACE, SAME_ANGLE = 0.01, 0.1
"""Contact frames of one gripper, described twice, differ at most by this: metres, radians."""


def check_same_contact(predicted: Gripper, used: Gripper) -> None:
    """Refuse poses of one gripper for another one whose contact frame is elsewhere.

    Raises:
        OptionError: The two contact frames differ.
    """
    cure = "use predictor.for_gripper(robot.gripper)."
    check_contact_frames(predicted.T_gripper_contact, used.T_gripper_contact, cure)


def check_contact_frames(
    predicted: Float[np.ndarray, "4 4"], used: Float[np.ndarray, "4 4"], cure: str
) -> None:
    """Refuse poses of one contact frame for another.

    Args:
        predicted: T_gripper_contact of the poses.
        used: T_gripper_contact of what executes them.
        cure: What to do if they differ.

    Raises:
        OptionError: They differ.
    """
    apart = np.linalg.inv(predicted) @ used
    distance = float(np.linalg.norm(apart[:3, 3]))
    angle = float(np.arccos(np.clip((np.trace(apart[:3, :3]) - 1.0) / 2.0, -1.0, 1.0)))
    if distance > SAME_PLACE or angle > SAME_ANGLE:
        raise OptionError(
            f"the predictor's poses are of a gripper whose contact frame is {1000 * distance:.0f} "
            f"mm and {np.rad2deg(angle):.0f} degrees from that of the robot's gripper: {cure}"
        )

"""Hands by name.

Openings and contacts of real hands are what their makers or the robot models in wide use publish;
each hand names its sources. The boxes are bounding boxes of slices of the published meshes, with
the fingers fully open, rounded to a tenth of a millimetre.
"""

from __future__ import annotations

import math

from handful.demos._gripper import ContactFrame, Gripper, HandBox, HandShape
from handful.errors import DemoError, unknown_name_message

SIMULATED = Gripper(
    contact=ContactFrame((0.0, 0.0, 0.145)),
    axis="x",
    opening=0.08,
    shape=HandShape(
        (
            HandBox((0.0, 0.0, 0.041), (0.116, 0.048, 0.042)),
            HandBox((0.0, 0.0, 0.01), (0.072, 0.072, 0.02)),
            HandBox((0.0445, 0.0, 0.106), (0.009, 0.022, 0.088), side=1),
            HandBox((-0.0445, 0.0, 0.106), (0.009, 0.022, 0.088), side=-1),
        )
    ),
    name="simulated",
)
"""The hand of the simulated robot. Its fingers end 5 mm beyond the contact."""

SIMULATED_LONG = Gripper(
    contact=ContactFrame((0.0, 0.0, 0.175)),
    axis="y",
    opening=0.084,
    shape=HandShape(
        (
            HandBox((0.0, 0.0, 0.0375), (0.07, 0.13, 0.035)),
            HandBox((0.0, 0.0, 0.01), (0.072, 0.072, 0.02)),
            HandBox((0.0, 0.047, 0.1175), (0.02, 0.01, 0.125), side=1),
            HandBox((0.0, -0.047, 0.1175), (0.02, 0.01, 0.125), side=-1),
        )
    ),
    name="simulated-long",
)
"""Another hand for the simulated robot: longer fingers, another palm, opening along y."""


def _both_sides(
    center: tuple[float, float, float], size: tuple[float, float, float], tilt: float = 0.0
) -> tuple[HandBox, HandBox]:
    """A box of the finger on the +y side, and its mirror image on the -y side.

    Args:
        center: Its middle, metres.
        size: Along its own axes, metres.
        tilt: Radians from the z axis towards +y.
    """
    x, y, z = center
    w, turn = math.cos(tilt / 2.0), math.sin(tilt / 2.0)
    return (
        HandBox((x, y, z), size, (w, -turn, 0.0, 0.0), side=1),
        HandBox((x, -y, z), size, (w, turn, 0.0, 0.0), side=-1),
    )


FRANKA_HAND = Gripper(
    contact=ContactFrame((0.0, 0.0, 0.1034)),
    axis="y",
    opening=0.08,
    shape=HandShape(
        (
            HandBox((0.0, -0.0018, 0.015), (0.0632, 0.2044, 0.030)),
            HandBox((0.0, -0.0018, 0.048), (0.0512, 0.2044, 0.036)),
            *_both_sides((0.0, 0.0585, 0.0694), (0.022, 0.015, 0.020)),
            *_both_sides((0.0, 0.0468, 0.0606), (0.022, 0.0088, 0.0038)),
            *_both_sides((0.0, 0.0559, 0.08675), (0.0175, 0.007, 0.0235), -math.pi / 6.0),
            *_both_sides((0.0, 0.0476, 0.10365), (0.0175, 0.0152, 0.0185)),
        )
    ),
    name="franka-hand",
)
"""Franka Hand of Panda and FR3. Gripper frame: the link of the hand, at the flange.

Sources: contact (`tcp_xyz`), travel of the fingers and their boxes, `franka_description`,
`end_effectors/common/franka_hand.xacro`. Body: its collision mesh `hand.stl`, 63 x 204 x 66 mm in
front of the flange; the part of it that surrounds the flange, up to 26 mm behind, is left out.
"""

_ROBOTIQ_BASE = (
    HandBox((0.0, 0.0, 0.019), (0.075, 0.0818, 0.038)),
    HandBox((0.0, 0.0, 0.0535), (0.0684, 0.0848, 0.031)),
    HandBox((0.0, 0.0, 0.0795), (0.0394, 0.070, 0.021)),
)
"""The body of both Robotiq hands, from the mesh `robotiq_arg2f_base_link.stl`."""

ROBOTIQ_2F_85 = Gripper(
    contact=ContactFrame((0.0, 0.0, 0.145)),
    axis="y",
    opening=0.085,
    shape=HandShape(
        (
            *_ROBOTIQ_BASE,
            *_both_sides((0.0, 0.0463, 0.0563), (0.024, 0.0463, 0.023)),
            *_both_sides((0.0, 0.0652, 0.0744), (0.027, 0.0181, 0.0591)),
            *_both_sides((0.0, 0.0313, 0.0832), (0.039, 0.012, 0.0692), math.atan2(0.0371, 0.0435)),
            *_both_sides((0.0, 0.0593, 0.106), (0.015, 0.0299, 0.0281)),
            *_both_sides((0.0, 0.05355, 0.13065), (0.022, 0.0221, 0.0375)),
        )
    ),
    name="robotiq-2f-85",
)
"""Robotiq 2F-85. Gripper frame: the base link of its models (`robotiq_arg2f_base_link`).

Sources: opening, the maker's stroke of 85 mm. Contact, the site `pinch` of `robotiq_2f85/2f85.xml`
in MuJoCo Menagerie. Shape, that file's pads and the meshes and joints of the package
`robotiq_2f_85_gripper_visualization` of ROS-Industrial. The real fingers swing: they come up to
14 mm farther forward as they close, which boxes that move straight do not show.
"""

ROBOTIQ_2F_140 = Gripper(
    contact=ContactFrame((0.0, 0.0, 0.195)),
    axis="y",
    opening=0.14,
    shape=HandShape(
        (
            *_ROBOTIQ_BASE,
            *_both_sides((0.0, 0.0501, 0.0567), (0.024, 0.0382, 0.0228)),
            *_both_sides(
                (0.0, 0.0787, 0.0913), (0.027, 0.0155, 0.0985), math.atan2(0.0331, 0.0799)
            ),
            *_both_sides((0.0, 0.045, 0.0996), (0.039, 0.012, 0.112), math.atan2(0.0646, 0.0763)),
            *_both_sides((0.0, 0.0863, 0.1405), (0.015, 0.0299, 0.0306)),
            *_both_sides((0.0, 0.07625, 0.177), (0.027, 0.0125, 0.065)),
        )
    ),
    name="robotiq-2f-140",
)
"""Robotiq 2F-140. Gripper frame: the base link of its models (`robotiq_arg2f_base_link`).

Sources: opening, the maker's stroke of 140 mm. Shape, the meshes, pads and joints of the package
`robotiq_2f_140_gripper_visualization` of ROS-Industrial, with the faces of its pads moved 6 mm
outwards to the stroke. Contact, estimated from the same joints: the middle of the pads at half of
the stroke. The middle is at z = 0.177 m when the hand is open and 0.201 m when it is closed.
"""

HANDS = {
    hand.name: hand
    for hand in (FRANKA_HAND, ROBOTIQ_2F_85, ROBOTIQ_2F_140, SIMULATED, SIMULATED_LONG)
}
"""Known hands by name."""


def gripper_named(name: str) -> Gripper:
    """The hand of that name.

    Raises:
        DemoError: There is none.
    """
    if name not in HANDS:
        raise DemoError(unknown_name_message("gripper", name, HANDS))
    return HANDS[name]

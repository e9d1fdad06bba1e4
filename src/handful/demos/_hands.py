"""Hands by name, with the dimensions that their makers publish."""

from __future__ import annotations

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

HANDS = {hand.name: hand for hand in (SIMULATED, SIMULATED_LONG)}
"""Known hands by name."""


def gripper_named(name: str) -> Gripper:
    """The hand of that name.

    Raises:
        DemoError: There is none.
    """
    if name not in HANDS:
        raise DemoError(unknown_name_message("gripper", name, HANDS))
    return HANDS[name]

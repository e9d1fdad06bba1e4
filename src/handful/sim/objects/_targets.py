"""What objects are put on: hangers, trays; and what they stand on before: supports."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from handful.demos.synthetic import HangerShape
from handful.render import Color, box_mesh, joined
from handful.sim.objects._parts import Thing, box_part, capsule_parts, cylinder_part

GREEN: Color = (0.16, 0.66, 0.22)
TRAY_BLUE: Color = (0.20, 0.42, 0.78)
SUPPORT_SAND: Color = (0.72, 0.64, 0.50)

DEFAULT_HANGER = HangerShape(
    foot_radius=0.05, foot_height=0.012, post_radius=0.009, post_height=0.270,
    arm_height=0.200, arm_length=0.095, arm_radius=0.005, arm_rise=0.80,
)  # fmt: skip
"""Its arm rises steeply, like the authors'; a handle is lowered over its tip.

The post goes on above the arm: from the notch between them no wide handle slips over the post.
"""


def hanger_thing(shape: HangerShape, color: Color = GREEN) -> Thing:
    """A hanger as a body; it does not move."""
    foot, top = shape.foot_height, shape.post_height
    axis = [np.array([0.0, 0.0, height]) for height in (0.0, foot, top)]
    arm = np.stack([shape.arm_point(0.0), shape.arm_point(shape.arm_length)])
    parts = (
        cylinder_part(axis[0], axis[1], shape.foot_radius),
        cylinder_part(axis[1], axis[2], shape.post_radius),
        *capsule_parts(arm, shape.arm_radius),
    )
    return Thing("hanger", (shape.mesh().recolored(color),), parts, 1.0)


def varied_hanger(rng: np.random.Generator) -> HangerShape:
    """A hanger whose post, arm and tilt are a little different."""
    arm = rng.uniform(0.185, 0.205)
    return replace(
        DEFAULT_HANGER,
        arm_height=arm,
        post_height=arm + rng.uniform(0.06, 0.08),
        arm_length=rng.uniform(0.088, 0.102),
        arm_radius=rng.uniform(0.0042, 0.0055),
        arm_rise=rng.uniform(0.72, 0.88),
    )


@dataclass(frozen=True)
class TrayShape:
    """A flat tray with a low lip; metres. The foot is at z = 0 around the origin.

    Attributes:
        length: Outer side along x.
        width: Outer side along y.
        floor: Height of the surface that things stand on.
        lip: How far the lip rises above it.
        edge: Thickness of the lip.
    """

    length: float = 0.20
    width: float = 0.17
    floor: float = 0.014
    lip: float = 0.012
    edge: float = 0.006

    def thing(self, color: Color = TRAY_BLUE) -> Thing:
        """The tray as a body; it does not move."""
        x, y, top = self.length / 2, self.width / 2, self.floor + self.lip
        boxes = [
            ((-x, -y, 0.0), (x, y, self.floor)),
            ((-x, -y, 0.0), (-x + self.edge, y, top)),
            ((x - self.edge, -y, 0.0), (x, y, top)),
            ((-x, -y, 0.0), (x, -y + self.edge, top)),
            ((-x, y - self.edge, 0.0), (x, y, top)),
        ]
        meshes = [box_mesh(low, high, color) for low, high in boxes]
        parts = [
            box_part((np.array(high) - low) / 2, (np.array(high) + low) / 2) for low, high in boxes
        ]
        return Thing("tray", (joined(meshes),), tuple(parts), 1.0)


def varied_tray(rng: np.random.Generator) -> TrayShape:
    """A tray of another size."""
    return TrayShape(
        length=rng.uniform(0.18, 0.23),
        width=rng.uniform(0.16, 0.19),
        floor=rng.uniform(0.008, 0.03),
        lip=rng.uniform(0.006, 0.018),
    )


def support_thing(half: tuple[float, float], height: float, color: Color = SUPPORT_SAND) -> Thing:
    """A block of any height; metres."""
    low, high = (-half[0], -half[1], 0.0), (half[0], half[1], height)
    part = box_part((half[0], half[1], height / 2), (0.0, 0.0, height / 2))
    return Thing("support", (box_mesh(low, high, color),), (part,), 1.0)

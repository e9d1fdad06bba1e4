"""The described hand: its parts, and points on its surface."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float

from handful.demos import Gripper, HandShape
from handful.render import surface_points

BODY_POINTS = 300
"""Points that stand for the surface of a hand."""


def shape_of(gripper: Gripper, holding: bool) -> HandShape | None:
    """The described shape; of a hand that holds something without the fingers.

    They are closed around what is held, at a width that nobody knows.
    """
    shape = gripper.shape
    if shape is None or not holding:
        return shape
    fixed = tuple(box for box in shape.boxes if box.side == 0)
    return HandShape(fixed, shape.meshes) if fixed or shape.meshes else None


@lru_cache(maxsize=64)
def body_points(gripper: Gripper, holding: bool) -> Float[np.ndarray, "body 3"]:
    """Points on the surface of the hand, gripper frame; none where its shape is not known."""
    shape = shape_of(gripper, holding)
    if shape is None:
        return np.zeros((0, 3))
    triangles = np.concatenate([vertices[faces] for vertices, faces in shape.surfaces()])
    return surface_points(triangles, BODY_POINTS)

"""Lengths of a file of recordings: robots' screens show millimetres or metres."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from handful._rigid import check_pose
from handful._strict_json import Fields
from handful.clouds import Box
from handful.demos import numbers_from_json, pose_from_json
from handful.errors import DemoError, errors_at, unknown_name_message

LENGTHS = {"m": 1.0, "mm": 0.001}
"""Names of units, and metres in one."""

FARTHEST = 10.0
"""Metres from the robot's base to a camera, a gripper or the end of a workspace, at most."""


@dataclass(frozen=True)
class Units:
    """How positions of a file are read.

    Attributes:
        length: `m` or `mm`.
    """

    length: str

    def __post_init__(self) -> None:
        if self.length not in LENGTHS:
            raise DemoError(unknown_name_message("length unit", self.length, LENGTHS))

    def pose(self, value: Any, address: str) -> Float[np.ndarray, "4 4"]:
        """A pose from JSON, in metres.

        Raises:
            HandfulError: It is no pose, or is too far away for its unit.
        """
        pose = pose_from_json(value, address)
        with errors_at(address):
            check_pose(pose, name="the matrix")
        pose[:3, 3] *= LENGTHS[self.length]
        self._check_near(pose[:3, 3], address)
        return pose

    def box(self, value: Any, address: str) -> Box:
        """A box from JSON, in metres."""
        fields = Fields(value, address, DemoError)
        corners = [
            numbers_from_json(fields.any(name), (3,), f"{address}: {name}") * LENGTHS[self.length]
            for name in ("lower", "upper")
        ]
        fields.done()
        for corner in corners:
            self._check_near(corner, address)
        with errors_at(address):
            (x, y, z), (x2, y2, z2) = (corner.tolist() for corner in corners)
            return Box((x, y, z), (x2, y2, z2))

    def _check_near(self, position: Float[np.ndarray, "3"], address: str) -> None:
        far = float(np.linalg.norm(position))
        if far > FARTHEST:
            raise DemoError(
                f"{address}: is {far:.4g} m away, with lengths in {self.length!r}: at most "
                f'{FARTHEST:g} m makes sense. Write "length_unit": "mm" if the file is in '
                "millimetres."
            )

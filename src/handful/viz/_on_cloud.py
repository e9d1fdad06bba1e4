"""Values of a field, and of an energy, as colours of a cloud's points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from handful.clouds import PointCloud
from handful.demos import Gripper
from handful.errors import OptionError
from handful.models import Field
from handful.policy import SceneView
from handful.render import ColoredMesh
from handful.viz._fields import interpolated, key_arrows
from handful.viz._palette import FieldPalette
from handful.viz._visible import at_most

_MOST = 6000
"""Positions that a field or an energy is asked for."""
_FINEST = 0.004
"""Metres between them, at least."""
_RAMP = np.array(
    [
        [0.27, 0.0, 0.33], [0.23, 0.32, 0.55], [0.13, 0.57, 0.55], [0.37, 0.79, 0.38],
        [0.99, 0.91, 0.14],
    ]
)  # fmt: skip
"""From weak to strong, and from high energies to low ones."""


@dataclass(frozen=True, eq=False)
class FieldOnCloud:
    """A key field at some points of a cloud.

    Attributes:
        points: Where it was asked, scene frame.
        values: The descriptors there.
        palette: From descriptors to colours and arrows.
    """

    points: Float[np.ndarray, "asked 3"]
    values: Float[Tensor, "asked dim"]
    palette: FieldPalette

    @classmethod
    def of(cls, cloud: PointCloud, key: Field, palette: FieldPalette) -> FieldOnCloud:
        """Ask a field at points of its cloud.

        Args:
            cloud: In the frame of the field.
            key: The field.
            palette: One for several clouds makes them comparable.
        """
        coarse = at_most(cloud, _FINEST, _MOST).points
        with torch.no_grad():
            values = key(torch.tensor(coarse).to(key.encoded.points))
        return cls(coarse, values, palette)

    def colors(self, wanted: Float[np.ndarray, "wanted 3"]) -> Float[np.ndarray, "wanted 3"]:
        """The type-0 part as colours of other points of the cloud."""
        return interpolated(self.palette.colors(self.values), self.points, wanted)

    def strength(self, degree: int) -> Float[np.ndarray, "asked"]:
        """Length of the type-l part.

        Raises:
            OptionError: The descriptors have none.
        """
        types = self.palette.types
        if not 0 <= degree <= types.max_degree or not types.channels[degree]:
            raise OptionError(f"this model's descriptors have no type {degree}.")
        block = self.values.split(types.sizes, dim=-1)[degree]
        return block.norm(dim=-1).double().numpy()

    def strength_colors(
        self, degree: int, wanted: Float[np.ndarray, "wanted 3"]
    ) -> Float[np.ndarray, "wanted 3"]:
        """The length of the type-l part as colours, dark where it is weak."""
        return interpolated(ramp(self.strength(degree)), self.points, wanted)

    def arrows(self, spacing: float) -> ColoredMesh:
        """The type-1 part as arrows, none closer to another than `spacing` metres."""
        return key_arrows(self.points, self.palette.arrows(self.values), 18.0 * spacing)


def energy_heat(
    view: SceneView,
    T_scene_gripper: Float[np.ndarray, "4 4"],
    gripper: Gripper,
    cloud: PointCloud,
    most: int = 1500,
) -> tuple[Float[np.ndarray, "asked 3"], Float[np.ndarray, "asked"]]:
    """Energies of a pose moved, as it is turned, over all of a scene.

    Args:
        view: What the model sees of the scene.
        T_scene_gripper: The pose; only its orientation matters.
        gripper: Whose contact point goes to each place.
        cloud: The scene.
        most: Places at most.

    Returns:
        Places of the contact point, and the energy of the pose at each.
    """
    places = at_most(cloud, _FINEST, most).points.astype(np.float64)
    contact = T_scene_gripper[:3, :3] @ gripper.T_gripper_contact[:3, 3]
    poses = np.repeat(T_scene_gripper[None], len(places), axis=0)
    poses[:, :3, 3] = places - contact
    return places, view.energies_at(poses)


def heat_colors(
    places: Float[np.ndarray, "asked 3"],
    energies: Float[np.ndarray, "asked"],
    wanted: Float[np.ndarray, "wanted 3"],
) -> Float[np.ndarray, "wanted 3"]:
    """Energies as colours of other points: bright where they are low."""
    return interpolated(ramp(-energies), places, wanted)


def ramp(values: Float[np.ndarray, "values"]) -> Float[np.ndarray, "values 3"]:
    """Colours from the lowest value, dark, to the highest, bright."""
    low, high = np.percentile(values, [2.0, 99.8])
    share = ((values - low) / max(float(high - low), 1e-12)).clip(0.0, 1.0) * (len(_RAMP) - 1)
    knots = np.arange(len(_RAMP))
    return np.stack([np.interp(share, knots, column) for column in _RAMP.T], axis=1)

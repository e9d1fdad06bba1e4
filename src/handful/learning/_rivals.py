"""Rivals: minima of the energy elsewhere, which a search would answer instead of the target."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from handful.clouds import Box
from handful.errors import OptionError
from handful.geometry import pose_to_rotation_translation, rotation_angle
from handful.models import EncodedCloud, MatchEnergy
from handful.sampling import ExhaustiveSearch, NothingToSearch, near_points

NEAR_DISTANCE, NEAR_ANGLE = 0.02, 0.35
"""Metres and radians: minima nearer than this to a target are that target's."""


@dataclass(frozen=True, eq=False)
class Minima:
    """What a search finds in a training scene.

    Attributes:
        right: Minima that are a target's.
        rivals: The best others, up to `Rivals.most`.
    """

    right: Float[Tensor, "right 4 4"]
    rivals: Float[Tensor, "rivals 4 4"]


@dataclass(frozen=True)
class Rivals:
    """How minima other than the target are looked for in training.

    A lattice does not show narrow minima that lie between its poses, and a model that is trained on
    a lattice alone is never told about them. The search that uses the model refines the best poses
    of its lattice, and finds them. Here training does the same, and lets what it finds compete.

    Attributes:
        most: Minima that compete in a step; 0 for none.
        starts: Lattice minima that refinement begins with.
        refine_steps: Most steps of refinement.
        share: Of the training steps that look for rivals.
        begin: They are looked for from this share of the training on: before, minima are anywhere.
    """

    most: int = 0
    starts: int = 64
    refine_steps: int = 3
    share: float = 0.5
    begin: float = 0.2

    def __post_init__(self) -> None:
        for name, least, most in (
            ("most", 0, 1000),
            ("starts", 1, 10_000),
            ("refine_steps", 1, 1000),
            ("share", 0, 1),
            ("begin", 0, 1),
        ):
            if not least <= getattr(self, name) <= most:
                raise OptionError(
                    f"rivals {name} is {getattr(self, name)}: need {least} to {most}."
                )

    def wanted(self, progress: float, generator: torch.Generator) -> bool:
        """Whether a training step looks for rivals."""
        if self.most == 0 or progress < self.begin:
            return False
        return float(torch.rand((), generator=generator)) < self.share

    def find(
        self,
        energy: MatchEnergy,
        poses: Float[Tensor, "poses 4 4"],
        scene: EncodedCloud,
        reach: float,
        spacing: float,
        rotations: int,
        generator: torch.Generator,
    ) -> Minima:
        """The best distinct minima, rivals and those of targets; no gradients go to them.

        Args:
            energy: Of the model as it is.
            poses: The targets T_scene_gripper.
            scene: The scene.
            reach: Query points farther than this from every point of the scene are not tried.
            spacing: Distance of the lattice's positions, metres.
            rotations: Number of its rotations.
            generator: Source of randomness.
        """
        search = ExhaustiveSearch(
            spacing=spacing,
            rotations=rotations,
            starts=self.starts,
            refine_steps=self.refine_steps,
            newton=False,  # where a minimum is to a millimetre does not matter here
            mask=near_points(scene.points, reach),
        )
        try:
            found = search.sample(
                energy, Box.around(scene.points.numpy(), reach), 2 * self.most, generator
            ).poses
        except NothingToSearch:
            return Minima(poses[:0], poses[:0])
        near = _near_some(found, poses, energy.queries.center.detach())
        return Minima(found[near].detach(), found[~near][: self.most].detach())


def _near_some(
    found: Float[Tensor, "found 4 4"],
    targets: Float[Tensor, "targets 4 4"],
    center: Float[Tensor, "3"],
) -> Bool[Tensor, "found"]:
    """Which poses are near a target: their centers, and how they are turned."""
    rotation, translation = pose_to_rotation_translation(found)
    turned, at = pose_to_rotation_translation(targets)
    away = (rotation @ center + translation)[:, None] - (turned @ center + at)
    angle = rotation_angle(rotation[:, None].mT @ turned)
    near = (away.norm(dim=-1) < NEAR_DISTANCE) & (angle < NEAR_ANGLE)
    return near.any(1)

"""Poses of low energy: descent from random starts."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from handful.baselines.ndf._config import MAX_AT_ONCE, PoseSearch
from handful.geometry import (
    haar_rotations,
    pose_from_rotation_translation,
    rotation_exp,
)

_LAST = 0.1
"""Share of the learning rate that is left in the last step."""


def low_poses(
    energy: Callable[[Tensor], Tensor],
    pivot: Float[Tensor, "3"],
    center: Float[Tensor, "3"],
    search: PoseSearch,
) -> tuple[Float[Tensor, "poses 4 4"], Float[Tensor, "poses"]]:
    """Ends of the descent, the lowest first, with their energies.

    Adam turns poses about a pivot, by rotation vectors, and moves them.

    Args:
        energy: Of poses.
        pivot: What poses are turned about, in their own frame: the middle of the query points.
        center: About where the pivot starts: the middle of the cloud.
        search: How many, and how long.
    """
    generator = torch.Generator().manual_seed(search.seed)
    rotation = haar_rotations(search.starts, generator=generator, dtype=center.dtype)
    away = torch.randn(search.starts, 3, generator=generator, dtype=center.dtype)
    away = away / away.norm(dim=-1, keepdim=True)
    far = torch.rand(search.starts, 1, generator=generator, dtype=center.dtype)
    at = center + search.reach * far * away
    with torch.no_grad():
        parts = zip(rotation.split(MAX_AT_ONCE), at.split(MAX_AT_ONCE), strict=True)
        values = torch.cat([energy(_about(pivot, turn, where)) for turn, where in parts])
    kept = values.argsort()[: search.kept]
    rotation, at = rotation[kept], at[kept]
    turn = torch.zeros_like(at, requires_grad=True)
    shift = torch.zeros_like(at, requires_grad=True)
    rates = {"turn": search.rate, "shift": search.stride}
    adam = torch.optim.Adam(
        [{"params": [turn], "name": "turn"}, {"params": [shift], "name": "shift"}]
    )

    def poses() -> Float[Tensor, "poses 4 4"]:
        return _about(pivot, rotation_exp(turn) @ rotation, at + shift)

    for step in range(search.steps):
        turn.grad, shift.grad = torch.autograd.grad(energy(poses()).sum(), [turn, shift])
        for group in adam.param_groups:
            group["lr"] = rates[group["name"]] * (1.0 - (1.0 - _LAST) * step / search.steps)
        adam.step()
    with torch.no_grad():
        ends = poses()
        values = energy(ends)
    order = values.argsort()
    return ends[order], values[order]


def _about(
    pivot: Float[Tensor, "3"], rotation: Float[Tensor, "poses 3 3"], at: Float[Tensor, "poses 3"]
) -> Float[Tensor, "poses 4 4"]:
    """Poses that turn as given and bring the pivot to given positions."""
    return pose_from_rotation_translation(rotation, at - rotation @ pivot)

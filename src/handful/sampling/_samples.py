"""What samplers return: poses with energies, best first, and a report of how they were found."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from handful.errors import OptionError
from handful.geometry import pose_to_quat_translation

MODE_ANGLE = 0.5
"""Radians. Poses closer than this, and than `MODE_DISTANCE`, belong to one mode."""

MODE_DISTANCE = 0.03
"""Metres."""

_NEAR_ROWS = 256


@dataclass(frozen=True)
class SamplingReport:
    """How a set of poses was found.

    Attributes:
        seconds: Wall-clock time.
        energy_evaluations: Poses whose whole energy was computed, gradients included.
        gradient_evaluations: Poses whose energy gradient was computed.
        lattice_poses: Poses whose energy came from a lattice's matrix products.
        acceptance_rate: Accepted share of the proposals; None where nothing is proposed.
        effective_sample_size: For chains, of the energy over the second half of all of them (see
            `chain_effective_sample_size`); for importance weights, (Σw)² / Σw². None where the
            poses are not a sample.
        log_partition: Estimate of log ∫ exp(-E) dR d³v over the workspace, lengths in metres and
            ∫dR = 1; None where the sampler gives none.
        levels: Lattices that were searched.
    """

    seconds: float
    energy_evaluations: int
    gradient_evaluations: int
    lattice_poses: int = 0
    acceptance_rate: float | None = None
    effective_sample_size: float | None = None
    log_partition: float | None = None
    levels: int = 0


@dataclass(frozen=True, eq=False)
class PoseSamples:
    """Poses with energies, best first.

    Attributes:
        poses: T_scene_gripper [poses, 4, 4], metres.
        energies: E(T) [poses], ascending.
        log_weights: Log importance weights [poses] that sum to one, or None when all count alike.
        report: How they were found.
    """

    poses: Float[Tensor, "poses 4 4"]
    energies: Float[Tensor, "poses"]
    log_weights: Float[Tensor, "poses"] | None
    report: SamplingReport

    def __len__(self) -> int:
        return len(self.energies)


def distinct_poses(
    poses: Float[Tensor, "poses 4 4"],
    energies: Float[Tensor, "poses"],
    angle: float,
    distance: float,
    limit: int | None = None,
) -> Int[Tensor, "kept"]:
    """Non-maximum suppression: the best pose, the best that is not near it, and so on.

    Two poses are near when both the angle between them is below `angle` (radians) and the distance
    of their origins below `distance` (metres).

    Args:
        poses: T_scene_gripper [poses, 4, 4].
        energies: E(T) [poses], in any order.
        angle: Radians.
        distance: Metres.
        limit: Most poses to keep; all by default.

    Returns:
        Indices of the kept poses, best first.
    """
    order = energies.argsort(stable=True)
    quats, origins = pose_to_quat_translation(poses[order])
    cosine = math.cos(0.5 * min(angle, math.pi))
    kept: list[int] = []
    alive = np.ones(len(order), dtype=bool)
    for start in range(0, len(order), _NEAR_ROWS):
        if limit is not None and len(kept) >= limit:
            break
        # What a block of poses is near to, all at once; then one pose after the other.
        block = slice(start, start + _NEAR_ROWS)
        near = (quats[block] @ quats.mT).abs() > cosine
        near &= torch.cdist(origins[block], origins) < distance
        rows = near.numpy()
        for row in range(len(rows)):
            if limit is not None and len(kept) >= limit:
                break
            if alive[start + row]:
                kept.append(start + row)
                alive &= ~rows[row]
    return order[torch.tensor(kept, dtype=torch.long)]


def mode_coverage(
    poses: Float[Tensor, "poses 4 4"],
    modes: Float[Tensor, "modes 4 4"],
    angle: float = MODE_ANGLE,
    distance: float = MODE_DISTANCE,
) -> float:
    """Share of known modes that have at least one of the poses nearby (see `distinct_poses`)."""
    if len(modes) == 0:
        raise OptionError("there are 0 known modes to cover: need at least one.")
    quats, origins = pose_to_quat_translation(poses)
    mode_quats, mode_origins = pose_to_quat_translation(modes)
    turn = 2.0 * (mode_quats @ quats.mT).abs().clamp_max(1.0).acos()
    gap = torch.cdist(mode_origins, origins)
    return float(((turn < angle) & (gap < distance)).any(1).double().mean())

"""Newton's method for a few poses, from energies alone: each model is fitted to 28 energies.

A gradient by automatic differentiation costs as much overhead as hundreds of energies. For few
poses it is cheaper to evaluate a stencil around each, which gives the Hessian too. Newton steps
then need a quarter of the turns of a method that has to learn the Hessian.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from handful.geometry import pose_retract
from handful.sampling._samples import distinct_poses
from handful.sampling._target import Target
from handful.sampling.chains import step_scale

_PROBE = 0.1  # Length of the stencil, in units of the tangent space.
_LONGEST = 1.5
_SHORTEST = 1e-3
_SHRINK = 0.3
_ARMIJO = 1e-4
_LAST_STEP = 1e3  # A step that promises less than this times the tolerance needs no new model.
_FLATTEST = 1e-3  # Curvatures are at least this share of the largest one.
_HOPE = 2.0  # A pose may fall by this times what its model promises.


@dataclass(eq=False)
class _Models:
    """Quadratic models E(u) = E + gᵀu + uᵀHu/2 in the tangent spaces of poses.

    Attributes:
        slope: g [poses, 6], per unit of rotation and of position.
        curvature: H [poses, 6, 6].
    """

    slope: Float[Tensor, "poses 6"]
    curvature: Float[Tensor, "poses 6 6"]

    @classmethod
    def fitted(cls, middle: Float[Tensor, "poses"], around: Float[Tensor, "poses 27"]) -> _Models:
        """The models through energies at poses and on their stencils; zero if one is infinite."""
        first, second = _pairs()
        plus, minus, both = around.split([6, 6, 15], dim=1)
        slope = (plus - minus) / (2.0 * _PROBE)
        curvature = torch.diag_embed((plus + minus - 2.0 * middle[:, None]) / _PROBE**2)
        mixed = (both - plus[:, first] - plus[:, second] + middle[:, None]) / _PROBE**2
        curvature[:, first, second] = mixed
        curvature[:, second, first] = mixed
        fine = torch.isfinite(around).all(1)
        return cls(
            torch.where(fine[:, None], slope, 0.0),
            torch.where(fine[:, None, None], curvature, torch.eye(6, dtype=middle.dtype)),
        )

    def replaced(self, which: Int[Tensor, "some"], new: _Models) -> None:
        """Put new models in the place of some."""
        self.slope[which], self.curvature[which] = new.slope, new.curvature

    def steps(
        self, which: Int[Tensor, "some"]
    ) -> tuple[Float[Tensor, "some 6"], Float[Tensor, "some"]]:
        """Newton steps with all curvatures made positive, and how far they promise to go down."""
        values, vectors = torch.linalg.eigh(self.curvature[which])
        values = values.abs()
        least = (_FLATTEST * values.amax(1, keepdim=True)).clamp_min(1e-12)
        along = vectors.mT @ self.slope[which, :, None]
        step = -(vectors @ (along / torch.maximum(values, least)[:, :, None])).squeeze(-1)
        return step, -0.5 * (step * self.slope[which]).sum(-1)


def polish(
    target: Target,
    poses: Float[Tensor, "poses 4 4"],
    energies: Float[Tensor, "poses"],
    *,
    count: int | None,
    turns: int,
    angle: float,
    distance: float,
    tolerance: float,
    deadline: float = math.inf,
) -> tuple[Float[Tensor, "poses 4 4"], Float[Tensor, "poses"]]:
    """Centred poses moved to their local minima by Newton's method, and their energies.

    A turn evaluates the poses where the last steps lead, with a stencil of 27 poses around each. No
    energy ever rises. A stencil that leaves the workspace ends the work on its pose.

    Args:
        target: The energy and its bounds.
        poses: Where to start.
        energies: E of the poses.
        count: How many distinct poses are wanted: a pose is given up when it is near a better one,
            or when even twice what its model promises does not bring it among the `count` best.
            None for all.
        turns: Most steps of every pose.
        angle: Unit of rotations, radians.
        distance: Unit of positions, metres.
        tolerance: A pose has converged when the next step promises less than this.
        deadline: Value of `time.perf_counter()` after which to stop.
    """
    poses, energies = poses.clone(), energies.clone()
    if time.perf_counter() > deadline:
        return poses, energies
    scale = step_scale(angle, distance, target.dtype)
    probes = _PROBE * _stencil(target.dtype) * scale

    def around(some: Float[Tensor, "some 4 4"]) -> Float[Tensor, "probes 4 4"]:
        return pose_retract(some.repeat_interleave(27, 0), probes.repeat(len(some), 1))

    active = torch.arange(len(poses))
    if count is not None:
        active = distinct_poses(poses, energies, 0.5 * angle, 0.5 * distance)
    models = _Models(energies.new_zeros(len(poses), 6), energies.new_zeros(len(poses), 6, 6))
    values = target.energies(around(poses[active])).unflatten(0, (-1, 27))
    models.replaced(active, _Models.fitted(energies[active], values))
    length = torch.ones_like(energies)
    for _ in range(turns):
        step, promise = models.steps(active)
        busy = (promise > tolerance) & (length[active] > _SHORTEST)
        if count is not None:
            least = energies.clone()
            least[active] -= _HOPE * promise
            busy &= _contenders(poses, energies, least, count, angle, distance)[active]
        active, step, promise = active[busy], step[busy], promise[busy]
        if len(active) == 0 or time.perf_counter() > deadline:
            break
        size = step.unflatten(-1, (2, 3)).square().sum(-1).amax(-1).sqrt()
        step = step * (length[active] * _LONGEST / size.clamp_min(_LONGEST))[:, None]
        tried = pose_retract(poses[active], step * scale)
        going_on = promise > _LAST_STEP * tolerance
        found, beside = target.energies(torch.cat([tried, around(tried[going_on])])).split(
            [len(tried), 27 * int(going_on.sum())]
        )
        down = (step * models.slope[active]).sum(-1)
        fine = found <= energies[active] + _ARMIJO * down
        length[active] = torch.where(fine, 1.0, length[active] * _SHRINK)
        poses[active[fine]], energies[active[fine]] = tried[fine], found[fine]
        new = _Models.fitted(found[going_on], beside.unflatten(0, (-1, 27)))
        better = fine[going_on]
        models.replaced(active[going_on][better], _Models(new.slope[better], new.curvature[better]))
        active = active[going_on | ~fine]
    return poses, energies


def _contenders(
    poses: Float[Tensor, "poses 4 4"],
    energies: Float[Tensor, "poses"],
    least: Float[Tensor, "poses"],
    count: int,
    angle: float,
    distance: float,
) -> Bool[Tensor, "poses"]:
    """Which poses can still become one of the `count` best, if each may come as low as `least`."""
    # As `ExhaustiveSearch.distinct`: a quarter of the lattice, whose half are the units.
    kept = distinct_poses(poses, energies, 0.5 * angle, 0.5 * distance)
    hopeful = torch.zeros(len(poses), dtype=torch.bool)
    hopeful[kept] = True
    if len(kept) >= count:
        hopeful &= least <= energies[kept[count - 1]]
    return hopeful


def _pairs() -> tuple[Int[Tensor, "15"], Int[Tensor, "15"]]:
    first, second = torch.triu_indices(6, 6, offset=1).unbind(0)
    return first, second


def _stencil(dtype: torch.dtype) -> Float[Tensor, "27 6"]:
    """Forward and backward along each of the six axes, and forward along each pair of them."""
    axes = torch.eye(6, dtype=dtype)
    first, second = _pairs()
    return torch.cat([axes, -axes, axes[first] + axes[second]])

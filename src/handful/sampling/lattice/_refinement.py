"""Second-order refinement of a batch of poses: BFGS on SO(3) x R³, all poses at once."""

from __future__ import annotations

import math
import time

import torch
from jaxtyping import Float
from torch import Tensor

from handful.geometry import pose_retract
from handful.sampling._target import Target
from handful.sampling.chains import reorthonormalised, step_scale

_ARMIJO = 1e-4
_SHORTEST = 1e-3


def refine(
    target: Target,
    centred: Float[Tensor, "poses 4 4"],
    *,
    steps: int,
    angle: float,
    distance: float,
    finish: int = 8,
    tolerance: float = 1e-5,
    deadline: float = math.inf,
) -> tuple[Float[Tensor, "poses 4 4"], Float[Tensor, "poses"]]:
    """Poses moved downhill to their local minima, and their energies there.

    Every pose keeps its own inverse Hessian [6, 6] in the tangent space (rotation in units of
    `angle`, position in units of `distance`) and its own step length. A step costs one energy with
    gradient; a step that does not lower the energy enough is shortened (Armijo). Poses that have
    converged are not evaluated again. No energy ever rises.

    Args:
        target: The energy and its bounds.
        centred: Where to start (see `Target`).
        steps: Most steps of every pose.
        finish: How many of the best poses go on for another `steps` steps.
        angle: Unit of rotations, radians; the longest step is two units.
        distance: Unit of positions, metres; the longest step is two units.
        tolerance: A pose has converged when the next step promises less than this.
        deadline: Value of `time.perf_counter()` after which to stop.
    """
    scale = step_scale(angle, distance, target.dtype)
    poses = target.clamped(centred)
    energies, gradients = target.energies_and_gradients(poses)
    slope = gradients * scale
    inverse = torch.eye(6, dtype=target.dtype).repeat(len(poses), 1, 1)
    inverse = inverse / slope.square().sum(-1).sqrt().clamp_min(1e-12)[:, None, None]
    fresh = torch.ones(len(poses), dtype=torch.bool)
    length = torch.ones_like(energies)
    active = torch.arange(len(poses))
    for turn in range(2 * steps):
        if turn == steps:
            best = energies.argsort(stable=True)[:finish]
            active = active[torch.isin(active, best)]
        step = -(inverse[active] @ slope[active, :, None]).squeeze(-1)
        promise = -(step * slope[active]).sum(-1)
        busy = (0.5 * promise > tolerance) & (length[active] > _SHORTEST)
        active, step = active[busy], step[busy]
        if len(active) == 0 or time.perf_counter() > deadline:
            break
        size = step.unflatten(-1, (2, 3)).square().sum(-1).amax(-1).sqrt()
        step = step * (length[active] * 2.0 / size.clamp_min(2.0))[:, None]
        tried = pose_retract(poses[active], step * scale)
        found, gradients = target.energies_and_gradients(tried)
        down = (step * slope[active]).sum(-1)
        fine = found <= energies[active] + _ARMIJO * down
        # Where a step failed: the minimum of the parabola through what is known (Nocedal & Wright
        # 3.5).
        rise = (found - energies[active] - down).clamp_min(1e-30)
        shrink = (-0.5 * down / rise).clamp(0.1, 0.5)
        length[active] = torch.where(fine, 1.0, length[active] * shrink)
        moved, step = active[fine], step[fine]
        change = gradients[fine] * scale - slope[moved]
        inverse[moved] = _updated(inverse[moved], step, change, fresh[moved])
        fresh[moved] = False
        poses[moved], energies[moved] = tried[fine], found[fine]
        slope[moved] = gradients[fine] * scale
    return reorthonormalised(poses), energies


def _updated(
    inverse: Float[Tensor, "poses 6 6"],
    step: Float[Tensor, "poses 6"],
    change: Float[Tensor, "poses 6"],
    fresh: Tensor,
) -> Float[Tensor, "poses 6 6"]:
    """The BFGS update of the inverse Hessian, left out where the curvature is not positive."""
    curvature = (step * change).sum(-1)
    size = change.square().sum(-1)
    fine = curvature > 1e-6 * step.square().sum(-1).sqrt() * size.sqrt()
    safe = torch.where(fine, curvature, 1.0)
    identity = torch.eye(6, dtype=inverse.dtype)
    # The first update has the right scale from sᵀy / yᵀy (Nocedal & Wright, eq. 6.20).
    start = (safe / size.clamp_min(1e-30))[:, None, None] * identity
    old = torch.where(fresh[:, None, None], start, inverse)
    left = identity - step[:, :, None] * change[:, None, :] / safe[:, None, None]
    outer = step[:, :, None] * step[:, None, :] / safe[:, None, None]
    return torch.where(fine[:, None, None], left @ old @ left.mT + outer, inverse)

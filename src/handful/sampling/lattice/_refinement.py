"""Second-order refinement of a batch of poses on SO(3) x R³: many by BFGS, the best by Newton."""

from __future__ import annotations

import math
import time

import torch
from jaxtyping import Float, Int
from torch import Tensor

from handful.geometry import pose_retract
from handful.sampling._target import Target
from handful.sampling.chains import reorthonormalised, step_scale

from ._newton import polish

_ARMIJO = 1e-4
_SHORTEST = 1e-3
_FEW, _FEWEST = 16, 8
_GO_ON = 0.25
"""Share of the poses that go on after a step, where few are wanted."""
_ENOUGH = 0.02
"""A pose with an energy gap to the best one has converged at this share of the gap."""


def refine(
    target: Target,
    centred: Float[Tensor, "poses 4 4"],
    *,
    steps: int,
    angle: float,
    distance: float,
    count: int | None = None,
    newton: bool = True,
    tolerance: float = 1e-5,
    deadline: float = math.inf,
) -> tuple[Float[Tensor, "poses 4 4"], Float[Tensor, "poses"]]:
    """Poses moved downhill towards their local minima, and their energies there.

    First all poses go down together by BFGS (`_descended`), then the best few by Newton's method
    (`polish`). Where `count` poses are wanted, the best quarter of the poses goes on after each
    step, until there are few enough for Newton's method, or `count`. Poses that were left behind
    are returned too. No energy ever rises.

    Args:
        target: The energy and its bounds.
        centred: Where to start (see `Target`).
        steps: Most steps of every pose, of each of the two methods.
        angle: Unit of rotations, radians.
        distance: Unit of positions, metres.
        count: How many distinct poses are wanted; None to refine all poses to the end.
        newton: Whether Newton's method ends the work. Without it poses are near minima only.
        tolerance: A pose has converged when the next step promises less than this. Where `count`
            poses are wanted, poses worse than the best one converge sooner.
        deadline: Value of `time.perf_counter()` after which to stop.
    """
    few = _FEW if count is None else min(max(2 * count, _FEWEST), _FEW)
    fewest = len(centred) if count is None else max(count, few)
    poses, energies, alive = _descended(
        target,
        target.clamped(centred),
        steps=steps,
        angle=angle,
        distance=distance,
        fewest=fewest,
        enough=0.0 if count is None else _ENOUGH,
        # Newton's method takes over from here, unless more are wanted.
        until=few if newton and fewest == few else 0,
        tolerance=tolerance,
        deadline=deadline,
    )
    if not newton:
        return reorthonormalised(poses), energies
    best = alive[energies[alive].argsort(stable=True)[:few]]
    poses[best], energies[best] = polish(
        target,
        poses[best],
        energies[best],
        count=count,
        turns=steps,
        angle=angle,
        distance=distance,
        tolerance=tolerance,
        deadline=deadline,
    )
    return reorthonormalised(poses), energies


def _descended(
    target: Target,
    poses: Float[Tensor, "poses 4 4"],
    *,
    steps: int,
    angle: float,
    distance: float,
    fewest: int,
    enough: float,
    until: int,
    tolerance: float,
    deadline: float,
) -> tuple[Float[Tensor, "poses 4 4"], Float[Tensor, "poses"], Int[Tensor, "alive"]]:
    """Poses after steps of BFGS, their energies, and which of them took part to the end.

    Every pose keeps its own inverse Hessian [6, 6] in the tangent space (rotation in units of
    `angle`, position in units of `distance`) and its own step length, at most two units. A step
    costs one energy with gradient; a step that does not lower the energy enough is shortened
    (Armijo). Poses that have converged are not evaluated again.

    Args:
        target: The energy and its bounds.
        poses: Centred poses inside of the workspace; they are moved in place.
        steps: Most steps of every pose.
        angle: Radians.
        distance: Metres.
        fewest: The best quarter goes on after each step, and not fewer than this number.
        enough: A pose has converged when the next step promises less than this share of its gap to
            the best energy.
        until: Stop as soon as no more poses than this take part.
        tolerance: A pose has converged when the next step promises less than this.
        deadline: Value of `time.perf_counter()` after which to stop.
    """
    scale = step_scale(angle, distance, target.dtype)
    energies, gradients = target.energies_and_gradients(poses)
    slope = gradients * scale
    inverse = torch.eye(6, dtype=target.dtype).repeat(len(poses), 1, 1)
    inverse = inverse / slope.square().sum(-1).sqrt().clamp_min(1e-12)[:, None, None]
    fresh = torch.ones(len(poses), dtype=torch.bool)
    length = torch.ones_like(energies)
    alive = torch.arange(len(poses))
    for turn in range(steps):
        most = max(fewest, math.ceil(len(poses) * _GO_ON**turn))
        if len(alive) > most:
            alive = alive[energies[alive].argsort(stable=True)[:most]]
        if len(alive) <= until:
            break
        step = -(inverse[alive] @ slope[alive, :, None]).squeeze(-1)
        promise = -0.5 * (step * slope[alive]).sum(-1)
        gap = energies[alive] - energies[alive].min()
        busy = (promise > (enough * gap).clamp_min(tolerance)) & (length[alive] > _SHORTEST)
        active, step = alive[busy], step[busy]
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
    return poses, energies, alive


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

"""Energies of gripper poses: how badly the query descriptors match the key field."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from handful.errors import OptionError, unknown_name_message
from handful.geometry import pose_to_rotation_translation, rotation_apply
from handful.nn import Types

NORMS = ("squared", "irrepwise_l1")

FieldFunction = Callable[[Tensor], Tensor]
"""Positions [n, 3] in metres to descriptors [n, dim]."""


def check_energy_options(norm: str, temperature: float) -> None:
    """Refuse a norm that does not exist, or a temperature that is no positive number."""
    if norm not in NORMS:
        raise OptionError(unknown_name_message("energy norm", norm, NORMS))
    if not 0 < temperature < math.inf:
        raise OptionError(f"temperature is {temperature}: need a positive number.")


@runtime_checkable
class Detachable(Protocol):
    """A field that can be had without derivatives by weights and features."""

    def detached(self) -> FieldFunction:
        """The same field with derivatives by positions only."""
        ...


@runtime_checkable
class PoseEnergy(Protocol):
    """Anything that gives each pose T_scene_gripper [n, 4, 4] an energy [n]; lower is better."""

    def __call__(self, poses: Float[Tensor, "poses 4 4"]) -> Float[Tensor, "poses"]:
        """Energies of the poses, differentiable with respect to them."""
        ...


@dataclass(frozen=True, eq=False)
class QueryPoints:
    """The query density of eq. point_density with the query field's values at its points.

    Attributes:
        positions: q_i in the gripper frame [queries, 3], metres.
        weights: w_i >= 0 [queries].
        descriptors: psi(q_i | Y) [queries, dim].
    """

    positions: Float[Tensor, "queries 3"]
    weights: Float[Tensor, "queries"]
    descriptors: Float[Tensor, "queries dim"]

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def center(self) -> Float[Tensor, "3"]:
        """The weighted mean of the positions, metres; no gradient goes through it."""
        weights = self.weights.detach()
        share = weights / weights.sum().clamp_min(torch.finfo(weights.dtype).tiny)
        return (share[:, None] * self.positions.detach()).sum(0)

    def strongest(self, count: int) -> QueryPoints:
        """The `count` query points of largest weight, with weights that add up to one.

        The paper keeps three at inference. Its weights are normalised over all query points; ours
        are normalised over those that are kept. An energy is then a weighted mean of mismatches,
        with one scale in training and in use, however many query points there are.
        """
        kept = self.weights.topk(min(count, len(self))).indices
        weights = self.weights[kept]
        total = weights.sum().clamp_min(torch.finfo(weights.dtype).tiny)
        return QueryPoints(self.positions[kept], weights / total, self.descriptors[kept])

    def useful(self) -> QueryPoints:
        """The query points of positive weight, weights unchanged."""
        some = self.weights > 0
        if bool(some.all()):
            return self
        return QueryPoints(self.positions[some], self.weights[some], self.descriptors[some])


@dataclass(frozen=True, eq=False)
class MatchEnergy:
    """E(T) = sum_i w_i |phi(T q_i) - D(R) psi_i|^2 / temperature (eq. energy_point, energy_pick).

    With `norm="irrepwise_l1"` the square is replaced by the sum of the lengths of the type-l
    vectors of the difference (appendix E). With that norm, type-0 descriptors only and all weights
    one, it is the energy of Neural Descriptor Fields (eq. ndf).

    Attributes:
        field: The key field phi(. | X).
        queries: The query points.
        types: What the descriptors hold.
        norm: `squared` or `irrepwise_l1`.
        temperature: Divides the energy.
    """

    field: FieldFunction
    queries: QueryPoints
    types: Types
    norm: str = "squared"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_energy_options(self.norm, self.temperature)

    def __call__(self, poses: Float[Tensor, "poses 4 4"]) -> Float[Tensor, "poses"]:
        """Energies of the poses T_scene_gripper."""
        return (self.per_query(poses) * self.queries.weights).sum(-1)

    def per_query(self, poses: Float[Tensor, "poses 4 4"]) -> Float[Tensor, "poses queries"]:
        """E_i(T) of every query point by itself, without its weight."""
        rotation, translation = pose_to_rotation_translation(poses)
        where = rotation_apply(rotation, self.queries.positions) + translation[:, None]
        keys = self.field(where.flatten(0, 1)).unflatten(0, where.shape[:2])
        turned = self.types.rotated(self.queries.descriptors, rotation[:, None])
        return self.mismatch(keys - turned) / self.temperature

    def detached(self) -> MatchEnergy:
        """The same energy without derivatives by anything but poses: cheaper to search."""
        field = self.field.detached() if isinstance(self.field, Detachable) else self.field
        q = self.queries
        queries = QueryPoints(q.positions.detach(), q.weights.detach(), q.descriptors.detach())
        return replace(self, field=field, queries=queries)

    def of_nothing(self) -> float:
        """What the query descriptors would cost against a key field that is zero everywhere."""
        with torch.no_grad():
            alone = self.mismatch(self.queries.descriptors) / self.temperature
            return float((alone * self.queries.weights).sum())

    def mismatch(self, difference: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch"]:
        """Size of a difference of descriptors in the energy's norm."""
        if self.norm == "squared":
            return difference.square().sum(-1)
        return self.types.norms(difference).sum(-1)

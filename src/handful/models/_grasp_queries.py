"""Query points drawn from a grasp cloud: where on what is held to look, and what to look for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from handful._checks import real_number, whole_number
from handful.clouds import PointCloud
from handful.models._energy import QueryPoints
from handful.models._field import EncodedCloud, Encoder, EncoderConfig, Field, FieldHead
from handful.nn import Types

WEIGHT_CHANNELS = 8


@dataclass(frozen=True)
class GraspQueryConfig:
    """How query points are drawn from a grasp cloud (appendix on query models).

    Attributes:
        encoder: Of the query field and of the query weights, which share it.
        strongest: How many query points are used; the paper uses three.
        count: Query points that are drawn at most, N_max of Algorithm 1.
        cluster_radius: Points nearer than this to a chosen one are passed over, metres.
        steps: SVGD steps, t_fin.
        step_size: SVGD step epsilon, in `unit` squared.
        unit: The length in which SVGD counts, metres.
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    strongest: int = 3
    count: int = 24
    cluster_radius: float = 0.015
    steps: int = 100
    step_size: float = 0.005
    unit: float = 0.01

    def __post_init__(self) -> None:
        whole_number("query count", self.count, 1, 1_000)
        whole_number("query steps", self.steps, 0, 10_000)
        whole_number("strongest", self.strongest, 1, 1_000)
        real_number("query cluster_radius", self.cluster_radius, 1e-5, 1.0)
        real_number("query step_size", self.step_size, 1e-9, 100.0)
        real_number("query unit", self.unit, 1e-4, 10.0)


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Query points before they are normalised.

    Attributes:
        positions: q_i(Y) [queries, 3], gripper frame, metres.
        logits: log w(q_i | Y) [queries].
    """

    positions: Float[Tensor, "queries 3"]
    logits: Float[Tensor, "queries"]

    def strongest(self, count: int) -> WeightedPoints:
        """The `count` query points of largest weight."""
        kept = self.logits.topk(min(count, len(self.logits))).indices
        return WeightedPoints(self.positions[kept], self.logits[kept])


class GraspQueries(nn.Module):
    """Query points, weights and descriptors of a grasp cloud: q_i(Y), w(x|Y) and psi(x|Y).

    Args:
        config: How points are drawn.
        types: What the descriptors hold.
    """

    def __init__(self, config: GraspQueryConfig, types: Types) -> None:
        super().__init__()
        self.config = config
        encoder = config.encoder
        self._encoder = Encoder(encoder)
        self._descriptor_head = FieldHead(encoder, types)
        self._weight_head = FieldHead(encoder, Types((WEIGHT_CHANNELS,)))
        self._weight = nn.Sequential(
            nn.Linear(WEIGHT_CHANNELS, WEIGHT_CHANNELS), nn.SiLU(), nn.Linear(WEIGHT_CHANNELS, 1)
        )

    def forward(self, grasp: PointCloud) -> QueryPoints:
        """The strongest query points; their weights add up to one (eq. normalize)."""
        encoded = self.encode(grasp)
        return self.describe(encoded, self.draw(encoded).strongest(self.config.strongest))

    def describe(self, encoded: EncodedCloud, points: WeightedPoints) -> QueryPoints:
        """Query points with their descriptors and weights that add up to one (eq. normalize)."""
        descriptors = self._descriptor_head.prepare(encoded)(points.positions)
        return QueryPoints(points.positions, points.logits.softmax(0), descriptors)

    def encode(self, grasp: PointCloud) -> EncodedCloud:
        """The grasp cloud, encoded."""
        return self._encoder(grasp)

    def draw(self, encoded: EncodedCloud) -> WeightedPoints:
        """Algorithm 1, then SVGD; differentiable through its steps with respect to the weights."""
        field = self._weight_head.prepare(encoded)
        if not torch.is_grad_enabled():
            field.tabulate()
        with torch.no_grad():
            chosen = initial_points(
                encoded.points, self._log_weight(field, encoded.points), self.config
            )
        positions = encoded.points[chosen]
        for _ in range(self.config.steps):
            positions = self._svgd_step(field, positions)
        return WeightedPoints(positions, self._log_weight(field, positions))

    def log_weight(
        self, encoded: EncodedCloud, positions: Float[Tensor, "positions 3"]
    ) -> Float[Tensor, "positions"]:
        """The query weight field log w(x|Y)."""
        return self._log_weight(self._weight_head.prepare(encoded), positions)

    def _log_weight(
        self, field: Field, positions: Float[Tensor, "positions 3"]
    ) -> Float[Tensor, "positions"]:
        return self._weight(field(positions)).squeeze(1)

    def _svgd_step(
        self, field: Field, positions: Float[Tensor, "queries 3"]
    ) -> Float[Tensor, "queries 3"]:
        wanted = torch.is_grad_enabled()
        with torch.enable_grad():
            where = positions if positions.requires_grad else positions.detach().requires_grad_()
            logits = self._log_weight(field, where)
            (slope,) = torch.autograd.grad(logits.sum(), where, create_graph=wanted)
        unit = self.config.unit
        moved = positions / unit + self.config.step_size * svgd_direction(
            positions / unit, slope * unit
        )
        return moved * unit


def initial_points(
    points: Float[Tensor, "points 3"], logits: Float[Tensor, "points"], config: GraspQueryConfig
) -> list[int]:
    """Algorithm 1: the heaviest point that is left, again and again, and none near a chosen one.

    The algorithm is deterministic, and a rigid motion of the cloud moves the chosen points along.
    Where the paper compares the squared distance with r_cluster, `cluster_radius` is a length.

    Returns:
        Indices of the chosen points, heaviest first.
    """
    left = logits.clone()
    chosen: list[int] = []
    while len(chosen) < config.count:
        best = int(left.argmax())
        if left[best] == -math.inf:
            break
        chosen.append(best)
        distance = (points - points[best]).norm(dim=1)
        left[distance <= config.cluster_radius] = -math.inf
    return chosen


def svgd_direction(
    positions: Float[Tensor, "queries 3"], slopes: Float[Tensor, "queries 3"]
) -> Float[Tensor, "queries 3"]:
    """Where SVGD moves the points (eq. svgd): up the weights together, and apart.

    Args:
        positions: q_i.
        slopes: Gradient of log w at q_i, per unit of `positions`.
    """
    count = len(positions)
    if count == 1:
        return slopes
    offset = positions[:, None] - positions[None, :]
    square = offset.square().sum(-1)
    first, second = torch.triu_indices(count, count, 1)
    bandwidth = square[first, second].median() / math.log(count)
    kernel = torch.exp(-square / bandwidth)
    attraction = kernel @ slopes
    repulsion = (2.0 / bandwidth) * (kernel[:, :, None] * offset).sum(1)
    return (attraction + repulsion) / count

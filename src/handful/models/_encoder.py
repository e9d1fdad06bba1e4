"""Encoders: features of the points of a cloud, computed once for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from handful.clouds import Edges, NeighbourIndex, PointCloud
from handful.errors import OptionError
from handful.models._thinned import DEGREE as MOMENT_DEGREE
from handful.models._thinned import Detail, ThinnedCloud, thinned, with_detail
from handful.nn import (
    MAX_DEGREE,
    EdgeGeometry,
    EquivariantLinear,
    EquivariantNorm,
    Gate,
    TransformerLayer,
    degree_sizes,
    padded,
)

_INVARIANT_SCALE = 4.0
"""Sizes of moments are a few tenths, colours about one."""


@dataclass(frozen=True)
class DetailConfig:
    """What is seen nearby, in more detail; lengths in metres.

    Attributes:
        voxel_size: Edge of the voxel filter's cells.
        radius: How far a field sees these points.
        shape_radius: Radius of the moments around each of them.
        channels: Channels of their features, for each degree.
        radial_basis: Radial functions of the field.
    """

    voxel_size: float = 0.011
    radius: float = 0.026
    shape_radius: float = 0.014
    channels: int = 8
    radial_basis: int = 3

    def __post_init__(self) -> None:
        for name in ("voxel_size", "radius", "shape_radius"):
            value = getattr(self, name)
            if not (np.isfinite(value) and 1e-4 <= value <= 1.0):
                raise OptionError(f"detail {name} is {value}: need metres, 0.0001 to 1.")
        for name, most in (("channels", 512), ("radial_basis", 16)):
            if not 1 <= getattr(self, name) <= most:
                raise OptionError(f"detail {name} is {getattr(self, name)}: need 1 to {most}.")


@dataclass(frozen=True)
class EncoderConfig:
    """What an encoder is built from; lengths in metres.

    Attributes:
        voxel_size: Edge of the voxel filter's cells; None leaves the cloud as it is.
        radius: How far a point sees its neighbours, in every layer and in the field.
        layers: SE(3)-transformer layers.
        degree: Highest degree of the hidden features.
        channels: Channels of the hidden features, for each degree.
        heads: Heads of the attention.
        use_colors: Whether colours are an input; a cloud without them is then an error.
        shape_radius: How far around each point of the thinned cloud the shape of the whole cloud is
            an input (`local_moments`); 0 for none.
        detail: What fields see nearby besides, with more points; None for nothing.
    """

    voxel_size: float | None = 0.017
    radius: float = 0.045
    layers: int = 2
    degree: int = 2
    channels: int = 16
    heads: int = 4
    use_colors: bool = True
    shape_radius: float = 0.0
    detail: DetailConfig | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.shape_radius) and 0 <= self.shape_radius <= 1.0):
            raise OptionError(f"encoder shape_radius is {self.shape_radius}: need metres, 0 to 1.")
        if (self.shape_radius > 0 or self.detail) and self.degree < MOMENT_DEGREE:
            raise OptionError(
                f"encoder degree is {self.degree}: need {MOMENT_DEGREE} or more for shapes."
            )
        for name in ("radius", "voxel_size"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and 1e-4 <= value <= 1.0):
                raise OptionError(f"encoder {name} is {value}: need metres, 0.0001 to 1.")
        for name, least, most in (
            ("layers", 1, 12),
            ("degree", 0, MAX_DEGREE),
            ("channels", 1, 512),
            ("heads", 1, 64),
        ):
            if not least <= getattr(self, name) <= most:
                raise OptionError(
                    f"encoder {name} is {getattr(self, name)}: need {least} to {most}."
                )

    @property
    def receptive_radius(self) -> float:
        """How far a field's value can depend on points of the thinned cloud, metres.

        Nothing beyond changes it. Their moments depend on the cloud as far as `shape_radius` around
        each of them.
        """
        return (self.layers + 1) * self.radius


@dataclass(frozen=True, eq=False)
class EncodedCloud:
    """A cloud with the features of its points; what all but the last layer give.

    Attributes:
        points: Positions [points, 3], metres.
        features: [points, (L+1)^2, channels].
        index: The points, prepared for neighbour searches.
        detail: The same cloud with more points that fewer layers have seen, or None.
    """

    points: Float[Tensor, "points 3"]
    features: Float[Tensor, "points components channels"]
    index: NeighbourIndex
    detail: EncodedCloud | None = None

    @property
    def finest(self) -> Float[Tensor, "finest 3"]:
        """The points of the detail, or where there is none, those of the cloud; metres."""
        return self.points if self.detail is None else self.detail.points


class _Input(nn.Module):
    """Colours and the moments of the shape as features: sizes as type 0, moments as they are.

    Args:
        use_colors: Whether colours are an input.
        shaped: Whether moments are.
        channels: Channels of the features.
    """

    def __init__(self, use_colors: bool, shaped: bool, channels: int) -> None:
        super().__init__()
        self._use_colors = use_colors
        invariants = MOMENT_DEGREE + 1 if shaped else 0
        self._embedding = nn.Linear((3 if use_colors else 1) + invariants, channels)
        self._shape_weights = nn.Parameter(torch.randn(MOMENT_DEGREE, channels)) if shaped else None

    def _inputs(self, few: ThinnedCloud) -> Float[Tensor, "points components channels"]:
        """Features of each point."""
        like = self._embedding.weight
        scalars = torch.ones(len(few), 1)
        if self._use_colors:
            scalars = torch.tensor(few.cloud.require_colors()) * 2.0 - 1.0
        if self._shape_weights is None:
            return self._embedding(scalars.to(like))[:, None, :]
        assert few.moments is not None
        moments = torch.tensor(few.moments).to(like)
        blocks = moments.split(degree_sizes(MOMENT_DEGREE), dim=1)
        sizes = [blocks[0], *(block.norm(dim=1, keepdim=True) for block in blocks[1:])]
        invariants = torch.cat(sizes, dim=1) * _INVARIANT_SCALE
        mixed = [self._embedding(torch.cat([scalars.to(like), invariants], dim=1))[:, None, :]]
        for block, weights in zip(blocks[1:], self._shape_weights, strict=True):
            mixed.append(block[:, :, None] * weights)
        return torch.cat(mixed, dim=1)


class Encoder(_Input):
    """SE(3)-transformer layers over a radius graph: the part that is computed once for a cloud."""

    def __init__(self, config: EncoderConfig) -> None:
        shaped = config.shape_radius > 0
        super().__init__(config.use_colors, shaped, config.channels)
        self.config = config
        first = MOMENT_DEGREE if shaped else 0
        self._layers = nn.ModuleList(
            TransformerLayer(
                first if layer == 0 else config.degree,
                config.degree,
                config.channels,
                config.heads,
            )
            for layer in range(config.layers)
        )

        self._detail = None if config.detail is None else _DetailLayer(config)

    def thin(self, cloud: PointCloud) -> ThinnedCloud:
        """A cloud as `forward` takes it."""
        few = thinned(cloud, self.config.voxel_size, self.config.shape_radius)
        detail = self.config.detail
        if detail is None:
            return few
        return with_detail(few, cloud, detail.voxel_size, detail.shape_radius)

    def forward(self, cloud: PointCloud | ThinnedCloud) -> EncodedCloud:
        """Thin the cloud unless it is thinned, connect its points and compute their features."""
        few = cloud if isinstance(cloud, ThinnedCloud) else self.thin(cloud)
        features = self._inputs(few)
        points = torch.tensor(few.points).to(features)
        index = NeighbourIndex(few.points)
        found = _apart(index.graph(self.config.radius), few.points)
        edges = geometry_of(found, points, points, self.config.radius)
        for layer in self._layers:
            features = layer(features, edges)
        detail = None
        if self._detail is not None:
            assert few.detail is not None
            detail = self._detail(few.detail, features)
        return EncodedCloud(points, features, index, detail)


class _DetailLayer(_Input):
    """Features of the detail's points: their shape, and what their owners know of what is around.

    f_j = gate(norm(A m_j + B f_owner(j))), point by point: no edges. The owner's features turn with
    the cloud like the point's own, and say which part of the scene the shape is a part of.

    Args:
        config: The encoder's, with a detail.
    """

    def __init__(self, config: EncoderConfig) -> None:
        assert config.detail is not None
        degree, channels = config.degree, config.detail.channels
        super().__init__(config.use_colors, True, channels)
        self._degree = degree
        self._from_owner = EquivariantLinear(degree, config.channels, channels)
        self._norm = EquivariantNorm(degree, channels)
        self._mix = EquivariantLinear(degree, channels, channels)
        self._gate = Gate(degree, channels)

    def forward(
        self, detail: Detail, owners: Float[Tensor, "points components channels"]
    ) -> EncodedCloud:
        """The detail with its features."""
        own = padded(self._inputs(detail.thinned), self._degree)
        owner = torch.from_numpy(detail.owner).to(owners.device)
        features = own + self._from_owner(owners).index_select(0, owner)
        features = self._gate(self._mix(self._norm(features)))
        points = torch.tensor(detail.thinned.points).to(features)
        return EncodedCloud(points, features, NeighbourIndex(detail.thinned.points))


def _apart(found: Edges, points: Float[np.ndarray, "points 3"]) -> Edges:
    """The edges whose ends do not coincide: an edge without a direction has no frame."""
    apart = (points[found.target] != points[found.source]).any(axis=1)
    return Edges(found.target[apart], found.source[apart])


def geometry_of(
    found: Edges,
    targets: Float[Tensor, "targets 3"],
    sources: Float[Tensor, "sources 3"],
    radius: float,
) -> EdgeGeometry:
    target = torch.from_numpy(found.target).to(targets.device)
    source = torch.from_numpy(found.source).to(targets.device)
    return EdgeGeometry.between(target, source, targets, sources, radius)

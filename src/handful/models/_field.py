"""Descriptor fields: a cloud is encoded once, then asked anywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from handful.clouds import Edges, NeighbourIndex, PointCloud
from handful.errors import OptionError, unknown_name_message
from handful.models._thinned import DEGREE as MOMENT_DEGREE
from handful.models._thinned import ThinnedCloud, thinned
from handful.nn import (
    MAX_DEGREE,
    DepthwiseTransformerLayer,
    EdgeGeometry,
    FieldEdges,
    TensorFieldLayer,
    TransformerLayer,
    Types,
    degree_sizes,
)

CONVOLUTIONS = {"dense": TransformerLayer, "depthwise": DepthwiseTransformerLayer}
"""Kinds of encoder layers by the name of their convolution."""
POSITIONS_AT_ONCE = 16_384
"""Positions evaluated in one go: bounds memory. Each go has derivatives as large as all matrices of
the points."""
_INVARIANT_SCALE = 4.0
"""Sizes of moments are a few tenths, colours about one."""
FEW_POSITIONS = 384
"""Up to so many positions are evaluated without a matrix for each point of the cloud."""


LARGEST_ENCODER = 5_000_000
"""Size of an encoder, a fifth of its parameters: a thousand times the usual one, 0.1 GB."""


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
        convolution: One of `CONVOLUTIONS`. `dense` mixes all channels in each message, `depthwise`
            mixes them at the points, at a fraction of the time.
        gate_sizes: Whether the sizes of vectors have a say in the gates (`nn.Gate`); models of
            before have not.
    """

    voxel_size: float | None = 0.017
    radius: float = 0.045
    layers: int = 2
    degree: int = 2
    channels: int = 16
    heads: int = 4
    use_colors: bool = True
    shape_radius: float = 0.0
    convolution: str = "dense"
    gate_sizes: bool = False

    def __post_init__(self) -> None:
        if self.convolution not in CONVOLUTIONS:
            raise OptionError(
                unknown_name_message("encoder convolution", self.convolution, tuple(CONVOLUTIONS))
            )
        if not (np.isfinite(self.shape_radius) and 0 <= self.shape_radius <= 1.0):
            raise OptionError(f"encoder shape_radius is {self.shape_radius}: need metres, 0 to 1.")
        if self.shape_radius > 0 and self.degree < MOMENT_DEGREE:
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

        size = self.layers * (self.channels * (self.degree + 1)) ** 2
        if size > LARGEST_ENCODER:
            raise OptionError(
                f"encoder with {self.layers} layers, degree {self.degree} and {self.channels} "
                f"channels has a size of {size:,} (layers * (channels * (degree + 1))^2): need at "
                f"most {LARGEST_ENCODER:,}."
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
    """

    points: Float[Tensor, "points 3"]
    features: Float[Tensor, "points components channels"]
    index: NeighbourIndex


class Encoder(nn.Module):
    """SE(3)-transformer layers over a radius graph: the part that is computed once for a cloud."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        shaped = config.shape_radius > 0
        invariants = MOMENT_DEGREE + 1 if shaped else 0
        self._embedding = nn.Linear((3 if config.use_colors else 1) + invariants, config.channels)
        self._shape_weights = (
            nn.Parameter(torch.randn(MOMENT_DEGREE, config.channels)) if shaped else None
        )
        first = MOMENT_DEGREE if shaped else 0
        layer_kind = CONVOLUTIONS[config.convolution]
        self._layers = nn.ModuleList(
            layer_kind(
                first if layer == 0 else config.degree,
                config.degree,
                config.channels,
                config.heads,
                gate_sizes=config.gate_sizes,
            )
            for layer in range(config.layers)
        )

    def thin(self, cloud: PointCloud) -> ThinnedCloud:
        """A cloud as `forward` takes it."""
        return thinned(cloud, self.config.voxel_size, self.config.shape_radius)

    def forward(self, cloud: PointCloud | ThinnedCloud) -> EncodedCloud:
        """Thin the cloud unless it is thinned, connect its points and compute their features."""
        few = cloud if isinstance(cloud, ThinnedCloud) else self.thin(cloud)
        like = self._embedding.weight
        points = torch.tensor(few.points, dtype=like.dtype, device=like.device)
        index = NeighbourIndex(few.points)
        found = _apart(index.graph(self.config.radius), few.points)
        target, source = (torch.from_numpy(end).to(points.device) for end in found)
        edges = EdgeGeometry.between(target, source, points, points, self.config.radius)
        features = self._inputs(few).to(like)
        for layer in self._layers:
            features = layer(features, edges)
        return EncodedCloud(points, features, index)

    def _inputs(self, few: ThinnedCloud) -> Float[Tensor, "points components channels"]:
        """Colours, and the moments of the shape: their sizes as type 0, themselves as they are."""
        like = self._embedding.weight
        scalars = torch.ones(len(few), 1)
        if self.config.use_colors:
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


class FieldHead(nn.Module):
    """The last layer: the field of an encoded cloud at any position.

    Args:
        config: The encoder's.
        types: What the field's values hold.
    """

    def __init__(self, config: EncoderConfig, types: Types) -> None:
        super().__init__()
        self.types = types
        self._radius = config.radius
        self._layer = TensorFieldLayer(config.degree, config.channels, types)

    def prepare(self, encoded: EncodedCloud) -> Field:
        """The field of one cloud; what does not depend on positions is computed once, on demand."""
        return Field(self, encoded, torch.is_grad_enabled())

    def kernel(self) -> Float[Tensor, "inputs basis_dim"]:
        """The last layer's weights as one matrix."""
        return self._layer.kernel()

    def point_matrices(
        self, encoded: EncodedCloud, kernel: Float[Tensor, "inputs basis_dim"]
    ) -> Float[Tensor, "points basis dim"]:
        """What many positions need for each point."""
        return self._layer.point_matrices(encoded.features, kernel)

    def edges(self, encoded: EncodedCloud, positions: Float[Tensor, "positions 3"]) -> FieldEdges:
        """From the points of a cloud to positions."""
        found = encoded.index.around(positions.detach().cpu().numpy(), self._radius)
        target, source = (torch.from_numpy(end).to(positions.device) for end in found)
        return FieldEdges(target, source, positions, encoded.points, self._radius)

    def at_many(
        self, matrices: Float[Tensor, "points basis dim"], edges: FieldEdges
    ) -> Float[Tensor, "positions dim"]:
        """Values of the field at the targets of edges, from `point_matrices`."""
        return self._layer(matrices, edges)

    def at_few(
        self,
        encoded: EncodedCloud,
        kernel: Float[Tensor, "inputs basis_dim"],
        edges: FieldEdges,
    ) -> Float[Tensor, "positions dim"]:
        """The same values from the features of the points."""
        return self._layer.at_few(encoded.features, kernel, edges)


class Field:
    """The field of one encoded cloud: call it with positions to get values.

    Args:
        head: The last layer.
        encoded: The cloud.
        differentiable: Whether gradients go to the features of the points and to the weights.
    """

    def __init__(self, head: FieldHead, encoded: EncodedCloud, differentiable: bool) -> None:
        self.head, self.encoded = head, encoded
        self._differentiable = differentiable
        self._tabulated = False

    def __call__(self, positions: Float[Tensor, "positions 3"]) -> Float[Tensor, "positions dim"]:
        """Values at positions in metres, differentiable with respect to them."""
        if len(positions) <= FEW_POSITIONS and not self._tabulated:
            edges = self.head.edges(self.encoded, positions)
            return self.head.at_few(self.encoded, self._kernel, edges)
        parts = [
            self.head.at_many(self._matrices, self.head.edges(self.encoded, part))
            for part in positions.split(POSITIONS_AT_ONCE)
        ]
        return torch.cat(parts)

    def detached(self) -> Field:
        """The same field with derivatives by positions only; what is computed is shared."""
        known = replace(self.encoded, features=self.encoded.features.detach())
        field = Field(self.head, known, False)
        for name in ("_kernel", "_matrices"):
            if name in self.__dict__:
                field.__dict__[name] = self.__dict__[name].detach()
        field._tabulated = self._tabulated
        return field

    def tabulate(self) -> None:
        """Compute what many positions need, before some are asked: few at a time are cheaper then.

        Values differ by rounding from those of few positions without it. What is asked of a field
        must therefore not do this on its own: the same question would have two answers, by what was
        asked before. Only derivatives of derivatives by positions take longer after it.
        """
        self._matrices  # noqa: B018 - it is kept
        self._tabulated = True

    @cached_property
    def _kernel(self) -> Float[Tensor, "inputs basis_dim"]:
        with torch.set_grad_enabled(self._differentiable):
            return self.head.kernel()

    @cached_property
    def _matrices(self) -> Float[Tensor, "points basis dim"]:
        with torch.set_grad_enabled(self._differentiable):
            return self.head.point_matrices(self.encoded, self._kernel)

    def gradient(self, positions: Float[Tensor, "positions 3"]) -> Float[Tensor, "positions dim 3"]:
        """Derivatives of the values with respect to x, y and z, per metre.

        A product of the Jacobian with a direction is the derivative, with respect to u, of the
        product of u with the Jacobian: three of these, not one for each component.
        """
        where = positions.detach().requires_grad_()
        with torch.enable_grad():
            values = self(where)
            cotangent = torch.zeros_like(values, requires_grad=True)
            (pulled,) = torch.autograd.grad(values, where, cotangent, create_graph=True)
            slopes = [
                torch.autograd.grad(pulled[:, axis].sum(), cotangent, retain_graph=True)[0]
                for axis in range(3)
            ]
        return torch.stack(slopes, dim=-1)


class DescriptorField(nn.Module):
    """An equivariant descriptor field phi(x|X) (eq. edf): an encoder and one field head.

    Args:
        config: The encoder's.
        types: What the descriptors hold; type 0 only is the paper's ablation.
    """

    def __init__(self, config: EncoderConfig, types: Types) -> None:
        super().__init__()
        self.types = types
        self.encoder = Encoder(config)
        self.head = FieldHead(config, types)

    def encode(self, cloud: PointCloud | ThinnedCloud) -> EncodedCloud:
        """Everything that does not depend on where the field is asked."""
        return self.encoder(cloud)

    def forward(self, cloud: PointCloud | ThinnedCloud) -> Field:
        """The field of a cloud."""
        return self.head.prepare(self.encode(cloud))


def _apart(found: Edges, points: Float[np.ndarray, "points 3"]) -> Edges:
    """The edges whose ends do not coincide: an edge without a direction has no frame."""
    apart = (points[found.target] != points[found.source]).any(axis=1)
    return Edges(found.target[apart], found.source[apart])

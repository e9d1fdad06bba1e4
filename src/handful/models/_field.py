"""Descriptor fields: a cloud is encoded once, then asked anywhere."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor, nn

from handful.clouds import PointCloud
from handful.models._encoder import EncodedCloud, Encoder, EncoderConfig, geometry_of
from handful.models._thinned import ThinnedCloud
from handful.nn import EdgeGeometry, TensorFieldLayer, Types

POSITIONS_AT_ONCE = 2048
"""Positions evaluated in one go: few enough that the arrays of their edges stay in the cache."""
FEW_POSITIONS = 384
"""Up to so many positions are evaluated without a matrix for each point of the cloud."""


class FieldHead(nn.Module):
    """The last layer: the field of an encoded cloud at any position.

    Where the encoder has a detail, the field is the sum of what its points and those of the detail
    give.

    Args:
        config: The encoder's.
        types: What the field's values hold.
    """

    def __init__(self, config: EncoderConfig, types: Types) -> None:
        super().__init__()
        self.types = types
        self._config = config
        self._layer = TensorFieldLayer(config.degree, config.channels, types)
        detail = config.detail
        self._detail_layer = (
            None
            if detail is None
            else TensorFieldLayer(
                config.degree, detail.channels, types, radial_basis=detail.radial_basis
            )
        )

    def prepare(self, encoded: EncodedCloud) -> Field:
        """The field of one cloud; what does not depend on positions is computed once, on demand."""
        wanted, detail = torch.is_grad_enabled(), self._config.detail
        parts = [_FieldPart(self._layer, self._config.radius, encoded, wanted)]
        if self._detail_layer is not None and detail is not None:
            assert encoded.detail is not None
            parts.append(_FieldPart(self._detail_layer, detail.radius, encoded.detail, wanted))
        return Field(self.types, encoded, parts)


class _FieldPart:
    """One part of a field for one cloud.

    Args:
        layer: The last layer.
        radius: How far it sees, metres.
        encoded: The cloud.
        differentiable: Whether gradients go to the features of the points and to the weights.
    """

    def __init__(
        self, layer: TensorFieldLayer, radius: float, encoded: EncodedCloud, differentiable: bool
    ) -> None:
        self._layer, self._radius = layer, radius
        self._encoded, self._differentiable = encoded, differentiable

    def at_few(self, positions: Float[Tensor, "positions 3"]) -> Float[Tensor, "positions dim"]:
        """Values at positions, from the features of the points."""
        return self._layer.at_few(self._encoded.features, self._kernel, self._edges(positions))

    def at_many(self, positions: Float[Tensor, "positions 3"]) -> Float[Tensor, "positions dim"]:
        """The same values from a matrix for each point."""
        return self._layer(self._matrices, self._edges(positions))

    def _edges(self, positions: Float[Tensor, "positions 3"]) -> EdgeGeometry:
        """From the points of the cloud to positions."""
        found = self._encoded.index.around(positions.detach().cpu().numpy(), self._radius)
        return geometry_of(found, positions, self._encoded.points, self._radius)

    @cached_property
    def _kernel(self) -> Float[Tensor, "inputs basis_dim"]:
        with torch.set_grad_enabled(self._differentiable):
            return self._layer.kernel()

    @cached_property
    def _matrices(self) -> Float[Tensor, "points basis dim"]:
        with torch.set_grad_enabled(self._differentiable):
            return self._layer.point_matrices(self._encoded.features, self._kernel)


class Field:
    """The field of one encoded cloud: call it with positions to get values.

    Args:
        types: What its values hold.
        encoded: The cloud.
        parts: What is added up.
    """

    def __init__(self, types: Types, encoded: EncodedCloud, parts: list[_FieldPart]) -> None:
        self.types, self.encoded, self._parts = types, encoded, parts

    def __call__(self, positions: Float[Tensor, "positions 3"]) -> Float[Tensor, "positions dim"]:
        """Values at positions in metres, differentiable with respect to them."""
        if len(positions) <= FEW_POSITIONS:
            return self._sum([part.at_few(positions) for part in self._parts])
        return torch.cat(
            [
                self._sum([part.at_many(some) for part in self._parts])
                for some in positions.split(POSITIONS_AT_ONCE)
            ]
        )

    @staticmethod
    def _sum(values: list[Float[Tensor, "positions dim"]]) -> Float[Tensor, "positions dim"]:
        first, *others = values
        for other in others:
            first = first + other
        return first

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

"""The tensor-field layer: features of points to a field that can be asked anywhere (eq. tfn)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from handful.nn._convolution import EdgeConvolution
from handful.nn._frames import EdgeGeometry
from handful.nn._layout import degree_sizes
from handful.nn._pointwise import EquivariantLinear, Gate
from handful.nn._radial import anisotropy, smooth_cutoff
from handful.nn._types import Types


class TensorFieldLayer(nn.Module):
    """f(x) = head(vacuum + sum_j c_j W(x - x_j) f_j, all over 1 + sum_j c_j / density).

    The sum is eq. tfn with a smooth compact cut-off c_j. Where points are dense the quotient is
    their average, so the field does not grow with the number of points; where none is near it
    falls smoothly to the vacuum's value. The head, a gate and a linear map at x alone, gives the
    types that are wanted.

    Where x meets a point x_j the direction of the edge has no meaning; there the kernel fades to
    an isotropic one, so that the field is differentiable everywhere.

    Args:
        in_degree: Highest degree of the points' features.
        types: What the field's values hold.
        channels: Channels of the points' features.
    """

    def __init__(self, in_degree: int, types: Types, channels: int) -> None:
        super().__init__()
        degree = types.max_degree
        self.types, self._in_degree, self._degree = types, in_degree, degree
        self._convolution = EdgeConvolution(in_degree, degree, channels, channels)
        self._contact = EquivariantLinear(min(in_degree, degree), channels, channels, bias=False)
        self._log_density = nn.Parameter(torch.zeros(()))
        self._vacuum = nn.Parameter(torch.randn(channels))
        self._gate = Gate(degree, channels)
        self._heads = nn.ParameterList(
            [nn.Parameter(torch.randn(channels, count) / channels**0.5) for count in types.channels]
        )

    def forward(
        self, features: Float[Tensor, "points in_components channels"], edges: EdgeGeometry
    ) -> Float[Tensor, "positions dim"]:
        """Values at the targets of the edges.

        Args:
            features: Features of the points, the edges' sources.
            edges: From points to positions.
        """
        convolution = self._convolution
        sources = features.index_select(0, edges.source)
        inward = edges.alignment(self._in_degree, convolution.max_order)
        messages, _ = convolution(sources, edges, inward)
        same = self._in_degree == self._degree
        outward = inward if same else edges.alignment(self._degree, convolution.max_order)
        cutoff = smooth_cutoff(edges.length)
        directed = cutoff * anisotropy(edges.length)
        turned = torch.bmm(outward.transpose(1, 2), messages * directed[:, None, None])
        total = _sum_at(turned, edges) + self._contact_sum(features, edges, cutoff - directed)
        weight = _sum_at(cutoff[:, None, None], edges) * torch.exp(-self._log_density)
        scalars, rest = total.split([1, total.shape[1] - 1], dim=1)
        mean = torch.cat([scalars + self._vacuum, rest], dim=1) / (1.0 + weight)
        return self._head(mean)

    def _contact_sum(
        self,
        features: Float[Tensor, "points in_components channels"],
        edges: EdgeGeometry,
        weight: Float[Tensor, "edges"],
    ) -> Float[Tensor, "positions components channels"]:
        """What points give to positions that (nearly) coincide with them."""
        shared = sum(degree_sizes(min(self._in_degree, self._degree)))
        local = self._contact(features[:, :shared])
        summed = _sum_at(local.index_select(0, edges.source) * weight[:, None, None], edges)
        missing = sum(degree_sizes(self._degree)) - shared
        return summed if missing == 0 else nn.functional.pad(summed, (0, 0, 0, missing))

    def _head(
        self, features: Float[Tensor, "positions components channels"]
    ) -> Float[Tensor, "positions dim"]:
        blocks = self._gate(features).split(degree_sizes(self._degree), dim=1)
        parts = [(block @ head).flatten(1) for block, head in zip(blocks, self._heads, strict=True)]
        return torch.cat(parts, dim=1)


def _sum_at(
    values: Float[Tensor, "edges components channels"], edges: EdgeGeometry
) -> Float[Tensor, "positions components channels"]:
    """Sums of the edges' values at their targets."""
    zeros = values.new_zeros(edges.targets, values[0].numel() if len(values) else 0)
    if not len(values):
        return values.new_zeros(edges.targets, *values.shape[1:])
    return zeros.index_add(0, edges.target, values.flatten(1)).view(-1, *values.shape[1:])

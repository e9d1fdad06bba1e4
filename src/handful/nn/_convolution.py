"""The edge-frame convolution: the tensor-field kernel of eq. tfn as dense matrix products.

In a frame whose polar axis is the edge, the kernel W(x) of eq. tfn commutes with rotations about
that axis, so it mixes rows of the same |m| only: a plain matrix for m = 0, and for each m > 0 two
matrices A, B that act on rows (+m, -m) like a complex number,

    out_{+m} = A f_{+m} - B f_{-m},    out_{-m} = B f_{+m} + A f_{-m}.

Rotating in, multiplying and rotating back is the same function as the sum over Clebsch-Gordan paths
(Passaro and Zitnick, 2023); `tests/reference_convolution.py` holds that sum and the map between the
weights.

No harmonic of the kernel is left out: all J from |l' - l| to l' + l are there. Orders |m| above the
smaller one of the two highest degrees are not computed, and would couple nothing. What is narrower
than in the paper are the radial functions. The paper has one, phi_J(|x|), for each J, input vector
and output vector. Here the length of an edge gives a learned factor for each order |m|, degree and
channel of the input, and all outputs share it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from handful.nn._frames import EdgeGeometry
from handful.nn._layout import order_sizes, radial_of_row
from handful.nn._radial import RadialNetwork


class EdgeConvolution(nn.Module):
    """One message for each edge, in the edge's frame.

    Args:
        in_degree: Highest degree of the input features.
        out_degree: Highest degree of the messages.
        inputs: Channels of the input.
        outputs: Channels of the messages.
        scalars: Further type-0 channels of the messages (attention uses them).
        radial_basis: Polynomials of the radial network.
        radial_hidden: Hidden width of the radial network.
    """

    def __init__(
        self,
        in_degree: int,
        out_degree: int,
        inputs: int,
        outputs: int,
        *,
        scalars: int = 0,
        radial_basis: int = 8,
        radial_hidden: int = 32,
    ) -> None:
        super().__init__()
        self.in_degree, self.out_degree = in_degree, out_degree
        self.inputs, self.outputs, self.scalars = inputs, outputs, scalars
        self.max_order = min(in_degree, out_degree)
        self._in_sizes = [n * inputs for n in order_sizes(in_degree, self.max_order)]
        self._out_sizes = [n * outputs for n in order_sizes(out_degree, self.max_order)]
        factors = radial_of_row(in_degree, self.max_order)
        columns = torch.tensor(factors)[:, None] * inputs + torch.arange(inputs)
        self._columns: Tensor
        self.register_buffer("_columns", columns.flatten(), persistent=False)
        self.radial = RadialNetwork(radial_basis, radial_hidden, (max(factors) + 1) * inputs)
        fan_in = self._in_sizes[0]
        self.polar = nn.Parameter(torch.randn(fan_in, self._out_sizes[0] + scalars) / fan_in**0.5)
        pairs = [
            torch.randn(2, fan // 2, out // 2) / fan**0.5
            for fan, out in zip(self._in_sizes[1:], self._out_sizes[1:], strict=True)
        ]
        self.pairs = nn.ParameterList([nn.Parameter(pair) for pair in pairs])

    def forward(
        self,
        features: Float[Tensor, "edges in_components inputs"],
        edges: EdgeGeometry,
        alignment: Float[Tensor, "edges in_rows in_components"],
    ) -> tuple[Float[Tensor, "edges out_rows outputs"], Float[Tensor, "edges scalars"]]:
        """Messages in the edges' frames, rows by order, and the further scalars.

        Args:
            features: Features of each edge's source.
            edges: The edges.
            alignment: `edges.alignment(in_degree, max_order)`.
        """
        factors = self.radial.spread(edges.length, self._columns)
        local = torch.bmm(alignment, features).flatten(1) * factors
        zero, *orders = local.split(self._in_sizes, dim=1)
        polar, scalars = (zero @ self.polar).split([self._out_sizes[0], self.scalars], dim=1)
        mixed = [polar]
        for rows, (a, b) in zip(orders, self.pairs, strict=True):
            block = torch.cat([torch.cat([a, b], dim=1), torch.cat([-b, a], dim=1)], dim=0)
            mixed.append(rows @ block)
        return torch.cat(mixed, dim=1).unflatten(1, (-1, self.outputs)), scalars

"""The tensor-field layer: features of points to a field that can be asked anywhere (eq. tfn).

The kernel of eq. tfn is a sum of radial functions times spherical harmonics of the offset x - x_j.
Expanding the radial functions in a fixed basis g_b makes it linear in what is known before x is:

    sum_j W(x - x_j) f_j = sum_j sum_{b, J, k} g_b(|x - x_j|) Y_Jk(x - x_j) M_j[b J k],

with a matrix M_j for each point, computed once for a cloud. A position then costs one small matrix
product for each point near it. M_j is linear in f_j, too: M_j = K f_j with one kernel matrix K. A
few positions are cheaper the other way round, sum_j g_b Y_Jk f_j first and K last, for then no M_j
is needed (`at_few`). With solid harmonics (polynomials of the offset) and g_b polynomials of the
squared distance times a smooth cut-off, the field is twice continuously differentiable
everywhere, at the points themselves too.

Harmonics of a higher degree than `max_harmonic` are left out, where eq. tfn has all J from |l' - l|
to l' + l. A value of type 3, for example, then comes from features of type 1 and 2, not of type 0.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from handful.geometry import coupling_coefficients, spherical_harmonics
from handful.nn._field_sums import FieldBasis, FieldEdges, outer_sums, product_sums
from handful.nn._frames import EdgeGeometry
from handful.nn._layout import component_count
from handful.nn._point_matrices import Path, PointMatrices
from handful.nn._radial import bernstein_basis, smooth_cutoff
from handful.nn._types import Types


class TensorFieldLayer(nn.Module):
    """f(x) = head((vacuum + sum_j W(x - x_j) f_j) / (1 + sum_j c_j / density)).

    The sum is eq. tfn; c_j is the smooth compact cut-off. Where points are dense the quotient is
    their average, so the field does not grow with the number of points; where none is near it
    falls smoothly to the value of the vacuum. The head acts at x alone: type 0 gates every type,
    and channels of a type are mixed.

    Args:
        in_degree: Highest degree of the points' features.
        channels: Channels of the points' features.
        types: What the field's values hold.
        max_harmonic: Highest degree J of the offset's harmonics.
        radial_basis: How many radial functions g_b.
    """

    def __init__(
        self,
        in_degree: int,
        channels: int,
        types: Types,
        *,
        max_harmonic: int = 2,
        radial_basis: int = 5,
    ) -> None:
        super().__init__()
        self.types = types
        self._in_degree, self._channels = in_degree, channels
        self._functions = FieldBasis(radial_basis, max_harmonic)
        self._paths = _paths(max_harmonic, in_degree, types)
        ways = Counter(path.out_degree for path in self._paths)
        self._weights = nn.ParameterList(
            nn.Parameter(
                torch.randn(radial_basis, channels, types.channels[path.out_degree])
                / (channels * ways[path.out_degree]) ** 0.5
            )
            for path in self._paths
        )
        self._matrices = PointMatrices(
            in_degree, max_harmonic, radial_basis, types, tuple(self._paths)
        )
        scalars = types.channels[0]
        self._log_density = nn.Parameter(torch.zeros(()))
        self._vacuum = nn.Parameter(torch.randn(scalars))
        self._gates = nn.Linear(scalars, sum(types.channels)) if scalars else None
        self._mixers = nn.ParameterList(
            nn.Parameter(torch.randn(count, count) / max(count, 1) ** 0.5)
            for count in types.channels
        )
        place, entry = _mixer_entries(types)
        self._mixer_place: Tensor
        self._mixer_entry: Tensor
        self._spread: Tensor
        self.register_buffer("_mixer_place", place, persistent=False)
        self.register_buffer("_mixer_entry", entry, persistent=False)
        self.register_buffer("_spread", _spread(types), persistent=False)

    # --- once for a cloud ----------------------------------------------------------------------

    def point_matrices(
        self,
        features: Float[Tensor, "points in_components channels"],
        kernel: Float[Tensor, "inputs basis_dim"],
    ) -> Float[Tensor, "points basis dim"]:
        """M_j of every point; rows are radial functions times harmonics."""
        if features.device.type != "cpu":
            return (features.flatten(1) @ kernel).unflatten(1, (-1, self.types.dim))
        return self._matrices(features, list(self._weights))

    def kernel(self) -> Float[Tensor, "inputs basis_dim"]:
        """Weights and coupling coefficients as one matrix K from features to M_j."""
        components, orders = (
            component_count(self._in_degree),
            component_count(self._functions.max_harmonic),
        )
        blocks = []
        for degree, count in enumerate(self.types.channels):
            if count == 0:
                continue
            ways = [
                weight.flatten()
                for path, weight in zip(self._paths, self._weights, strict=True)
                if path.out_degree == degree
            ]
            couplings = self._couplings(degree).to(ways[0])
            shape = (
                components,
                orders,
                2 * degree + 1,
                self._functions.radial,
                self._channels,
                count,
            )
            block = (couplings @ torch.stack(ways)).view(shape)
            blocks.append(block.permute(0, 4, 3, 1, 2, 5).flatten(4))
        return torch.cat(blocks, dim=-1).flatten(2).flatten(0, 1)

    def _couplings(self, degree: int) -> Float[Tensor, "entries paths"]:
        """Coupling coefficients [components, harmonics, orders] of each path to a degree, flat."""
        paths = tuple(path for path in self._paths if path.out_degree == degree)
        return _coupling_columns(self._in_degree, self._functions.max_harmonic, degree, paths)

    # --- for each position ---------------------------------------------------------------------

    def forward(
        self, matrices: Float[Tensor, "points basis dim"], edges: FieldEdges
    ) -> Float[Tensor, "positions dim"]:
        """Values at the targets of the edges: for many positions.

        Args:
            matrices: `point_matrices` of the edges' sources.
            edges: From points to positions.
        """
        if matrices.device.type != "cpu":
            return self._mean(*self._product_sums(edges.geometry, matrices))
        return self._mean(*product_sums(self._functions, edges, matrices, self._product_sums))

    def at_few(
        self,
        features: Float[Tensor, "points in_components channels"],
        kernel: Float[Tensor, "inputs basis_dim"],
        edges: FieldEdges,
    ) -> Float[Tensor, "positions dim"]:
        """The values of `forward` for few positions, without a matrix for each point.

        Args:
            features: Of the edges' sources.
            kernel: From `kernel`.
            edges: From points to positions.
        """
        flat = features.flatten(1)
        if features.device.type == "cpu":
            sums, weight = outer_sums(self._functions, edges, flat, self._outer_sums)
        else:
            sums, weight = self._outer_sums(edges.geometry, flat)
        by_basis = kernel.unflatten(1, (-1, self.types.dim)).transpose(0, 1).flatten(0, 1)
        return self._mean(sums.flatten(1) @ by_basis, weight)

    def _mean(
        self, total: Float[Tensor, "positions dim"], weight: Float[Tensor, "positions"]
    ) -> Float[Tensor, "positions dim"]:
        """The weighted mean with the vacuum's term, and the head."""
        scalars, rest = total.split([self.types.channels[0], total.shape[1] - len(self._vacuum)], 1)
        mean = torch.cat([scalars + self._vacuum, rest], dim=1)
        return self._head(mean / (1.0 + weight * torch.exp(-self._log_density))[:, None])

    # --- sums over neighbours by array operations, differentiable any number of times ----------

    def _outer_sums(
        self, edges: EdgeGeometry, features: Float[Tensor, "points inputs"]
    ) -> tuple[Float[Tensor, "positions basis inputs"], Float[Tensor, "positions"]]:
        basis, weight = self._basis(edges)
        counts = torch.bincount(edges.target, minlength=edges.targets)
        most = max(int(counts.max()), 1) if edges.targets else 1
        first = counts.cumsum(0) - counts
        place = torch.arange(len(edges.target)) - first.index_select(0, edges.target)
        place = place + edges.target * most
        source = edges.source.new_zeros(edges.targets * most).index_copy(0, place, edges.source)
        padded = basis.new_zeros(edges.targets * most, basis.shape[1]).index_copy(0, place, basis)
        near = features.index_select(0, source).unflatten(0, (-1, most))
        return torch.bmm(padded.unflatten(0, (-1, most)).mT, near), weight

    def _product_sums(
        self, edges: EdgeGeometry, matrices: Float[Tensor, "points basis dim"]
    ) -> tuple[Float[Tensor, "positions dim"], Float[Tensor, "positions"]]:
        basis, weight = self._basis(edges)
        values = torch.bmm(basis[:, None, :], matrices.index_select(0, edges.source)).squeeze(1)
        return values.new_zeros(edges.targets, values.shape[1]).index_add(
            0, edges.target, values
        ), weight

    def _basis(
        self, edges: EdgeGeometry
    ) -> tuple[Float[Tensor, "edges basis"], Float[Tensor, "positions"]]:
        """g_b(|x|) Y_Jk(x) of every edge, cut-off included, and the sum of the cut-off.

        Offsets are in units of the radius.
        """
        cutoff = smooth_cutoff(edges.length)
        radial = bernstein_basis(edges.length, self._functions.radial) * cutoff[:, None]
        offset = edges.direction * edges.length[:, None]
        angular = spherical_harmonics(offset, self._functions.max_harmonic, normalize=False)
        basis = (radial[:, :, None] * angular[:, None, :]).flatten(1)
        return basis, cutoff.new_zeros(edges.targets).index_add(0, edges.target, cutoff)

    def _head(self, values: Float[Tensor, "positions dim"]) -> Float[Tensor, "positions dim"]:
        if self._gates is None:
            return values
        # One matrix for all orders and degrees: many small products take longer than their zeros.
        gates = torch.sigmoid(self._gates(values[:, : self.types.channels[0]]))
        mixers = torch.cat([mixer.flatten() for mixer in self._mixers])
        mixer = values.new_zeros(self.types.dim**2).index_copy(
            0, self._mixer_place, mixers.index_select(0, self._mixer_entry)
        )
        return (values * (gates @ self._spread)) @ mixer.unflatten(0, (self.types.dim, -1))


def _mixer_entries(types: Types) -> tuple[Int[Tensor, "entries"], Int[Tensor, "entries"]]:
    """Where entries of all mixers stand in one flat matrix that mixes whole descriptors.

    Returns:
        The place of each entry of the matrix that is not zero, and its place among the mixers.
    """
    places, entries, first, column = [], [], 0, 0
    for degree, count in enumerate(types.channels):
        mixer = first + torch.arange(count * count).view(count, count)
        for _ in range(2 * degree + 1):
            rows = column + torch.arange(count)
            places.append((rows[:, None] * types.dim + rows).flatten())
            entries.append(mixer.flatten())
            column += count
        first += count * count
    return torch.cat(places), torch.cat(entries)


def _spread(types: Types) -> Float[Tensor, "gates dim"]:
    """Twice the gate of each vector of a descriptor for each of its numbers."""
    spread, gate, column = torch.zeros(sum(types.channels), types.dim), 0, 0
    for degree, count in enumerate(types.channels):
        for _ in range(2 * degree + 1):
            spread[gate : gate + count, column : column + count] = 2.0 * torch.eye(count)
            column += count
        gate += count
    return spread


def _paths(max_harmonic: int, in_degree: int, types: Types) -> list[Path]:
    """All couplings that the triangle rule allows, to types that are wanted."""
    return [
        Path(harmonic, degree, out)
        for harmonic in range(max_harmonic + 1)
        for degree in range(in_degree + 1)
        for out, count in enumerate(types.channels)
        if count > 0 and abs(harmonic - degree) <= out <= harmonic + degree
    ]


@lru_cache(maxsize=64)
def _coupling_columns(
    in_degree: int, max_harmonic: int, out_degree: int, paths: tuple[Path, ...]
) -> Float[Tensor, "entries paths"]:
    """For each path to `out_degree` its coupling coefficients [components, harmonics, orders]."""
    shape = (component_count(in_degree), component_count(max_harmonic), 2 * out_degree + 1)
    with torch.inference_mode(False):
        columns = torch.zeros(*shape, len(paths), dtype=torch.float64)
        for number, (harmonic, degree) in enumerate((p.harmonic, p.in_degree) for p in paths):
            coupling = coupling_coefficients(degree, harmonic, out_degree)
            rows = slice(degree**2, (degree + 1) ** 2)
            inner = slice(harmonic**2, (harmonic + 1) ** 2)
            columns[rows, inner, :, number] = coupling * (2 * out_degree + 1) ** 0.5
        return columns.flatten(0, 2)

"""The matrices M_j of a tensor field's points, from their features, by the couplings that exist.

M_j is linear in the features f_j, and most entries of that linear map are zero: a Clebsch-Gordan
coefficient couples few orders, and channels are mixed in the same way for all of them. So channels
are mixed first, for each path (harmonic, degree in, degree out) and radial function, by one matrix
product for each degree; then compiled loops add the results up, each times its coefficient. That is
a tenth of the arithmetic of the product with the dense map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, no_type_check

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from handful.geometry import coupling_coefficients
from handful.nn._compiled import compiled
from handful.nn._layout import component_count, degree_sizes
from handful.nn._types import Types


@dataclass(frozen=True)
class Path:
    """One way to couple the offset's harmonics J with an input degree to an output degree."""

    harmonic: int
    in_degree: int
    out_degree: int


class _Assembly(NamedTuple):
    """How the columns of one output degree are added up.

    Attributes:
        channels: Channels of the output degree.
        entries: (place in the mixed features, harmonic, column): what is added where.
        coefficients: And times which number.
        columns: First column of the degree, and the one after its last.
    """

    channels: int
    entries: Int[np.ndarray, "entries 3"]
    coefficients: Float[np.ndarray, "entries"]
    columns: tuple[int, int]


@dataclass(frozen=True)
class PointMatrices:
    """How M_j is made for fields of some types.

    Attributes:
        in_degree: Highest degree of the features.
        max_harmonic: Highest degree of the harmonics.
        radial: Number of radial functions.
        types: What the field's values hold.
        paths: All couplings, in the order of their weights.
    """

    in_degree: int
    max_harmonic: int
    radial: int
    types: Types
    paths: tuple[Path, ...]

    def __call__(
        self,
        features: Float[Tensor, "points components channels"],
        weights: Sequence[Tensor],
    ) -> Float[Tensor, "points basis dim"]:
        """M_j of every point; rows are radial functions times harmonics.

        Args:
            features: f_j.
            weights: Of each path [radial, channels, channels of its output].
        """
        mixed = []
        for degree, block in enumerate(features.split(degree_sizes(self.in_degree), dim=1)):
            ways = [
                weight.transpose(0, 1).flatten(1)
                for weight, path in zip(weights, self.paths, strict=True)
                if path.in_degree == degree
            ]
            if ways:
                mixed.append((block @ torch.cat(ways, dim=1)).flatten(1))
        return _Assembled.apply(self, torch.cat(mixed, dim=1))

    @lru_cache(maxsize=16)  # noqa: B019 - a few small tables, for as long as the process lives
    def assemblies(self) -> tuple[_Assembly, ...]:
        """The assembly of each output degree that there is."""
        starts = self._starts()
        found, column = [], 0
        for out, channels in enumerate(self.types.channels):
            entries, coefficients = [], []
            for number, path in enumerate(self.paths):
                if path.out_degree != out:
                    continue
                start, width = starts[number]
                coupling = coupling_coefficients(path.in_degree, path.harmonic, out).numpy()
                for order, k, into in np.argwhere(np.abs(coupling) > 1e-12):
                    row = path.harmonic**2 + int(k)
                    place = start + int(order) * width
                    entries.append((place, row, column + int(into) * channels))
                    coefficients.append(coupling[order, k, into] * (2 * out + 1) ** 0.5)
            end = column + (2 * out + 1) * channels
            if entries:
                found.append(
                    _Assembly(channels, np.array(entries), np.array(coefficients), (column, end))
                )
            column = end
        return tuple(found)

    def _starts(self) -> list[tuple[int, int]]:
        """For each path its first place in the mixed features, and the places of an order."""
        starts: dict[int, tuple[int, int]] = {}
        first = 0
        for degree in range(self.in_degree + 1):
            numbers = [n for n, path in enumerate(self.paths) if path.in_degree == degree]
            widths = [self.radial * self.types.channels[self.paths[n].out_degree] for n in numbers]
            for index, number in enumerate(numbers):
                starts[number] = (first + sum(widths[:index]), sum(widths))
            first += (2 * degree + 1) * sum(widths)
        return [starts[number] for number in range(len(self.paths))]


class _Assembled(torch.autograd.Function):
    """Mixed features to matrices: linear, so the way back needs no features."""

    @staticmethod
    def forward(ctx: Any, matrices: PointMatrices, mixed: Tensor) -> Tensor:
        ctx.matrices, ctx.width = matrices, mixed.shape[1]
        harmonics = component_count(matrices.max_harmonic)
        shape = (len(mixed), matrices.radial * harmonics, matrices.types.dim)
        out = mixed.new_empty(shape)
        _run(matrices, mixed.contiguous(), out, back=False)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        by_out = grads[0].contiguous()
        by_mixed = by_out.new_zeros(len(by_out), ctx.width)
        _run(ctx.matrices, by_mixed, by_out, back=True)
        return None, by_mixed


def _run(matrices: PointMatrices, mixed: Tensor, out: Tensor, back: bool) -> None:
    harmonics, flat = component_count(matrices.max_harmonic), out.flatten(1)
    for assembly in matrices.assemblies():
        kernel = _assembly_kernel(matrices.radial, harmonics, assembly.channels)
        coefficients = assembly.coefficients.astype(mixed.numpy().dtype)
        first, end = assembly.columns
        kernel(mixed.numpy(), assembly.entries, coefficients, first, end, back, flat.numpy())


@lru_cache(maxsize=64)
@no_type_check
def _assembly_kernel(radial: int, harmonics: int, channels: int) -> Any:
    """Add mixed features up to columns `first` to `end` of matrices, or go the way back."""

    @compiled
    def kernel(mixed, entries, coefficients, first, end, back, out):
        dim = out.shape[1] // (radial * harmonics)
        step = harmonics * dim
        for j in range(len(mixed)):
            given, matrix = mixed[j], out[j]
            if back:
                for k in range(len(entries)):
                    start, value = entries[k, 0], coefficients[k]
                    into = entries[k, 1] * dim + entries[k, 2]
                    for b in range(radial):
                        for c in range(channels):
                            given[start + b * channels + c] += value * matrix[into + b * step + c]
                continue
            for row in range(radial * harmonics):
                for column in range(first, end):
                    matrix[row * dim + column] = 0.0
            for k in range(len(entries)):
                start, value = entries[k, 0], coefficients[k]
                into = entries[k, 1] * dim + entries[k, 2]
                for b in range(radial):
                    for c in range(channels):
                        matrix[into + b * step + c] += value * given[start + b * channels + c]

    return kernel

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
from jaxtyping import Float, Int, UInt
from torch import Tensor

from handful._compiled import compiled
from handful.geometry import coupling_coefficients
from handful.nn._layout import component_count, degree_sizes
from handful.nn._types import Types

_FOUR = 4
"""Channels that are added up as one vector."""


@dataclass(frozen=True)
class Path:
    """One way to couple the offset's harmonics J with an input degree to an output degree."""

    harmonic: int
    in_degree: int
    out_degree: int


class _SparseMap(NamedTuple):
    """A sparse linear map of vectors, in blocks of neighbouring numbers that are treated alike.

    Attributes:
        block: Numbers in a block.
        into: First number of each block of the output.
        first: The terms of output block i are those from first[i] up to first[i + 1].
        place: First number of the input block of each term.
        factor: What it is multiplied by.
    """

    block: int
    into: UInt[np.ndarray, "blocks"]
    first: Int[np.ndarray, "blocks_and_one"]
    place: UInt[np.ndarray, "terms"]
    factor: Float[np.ndarray, "terms"]

    @classmethod
    def of(cls, block: int, terms: Sequence[tuple[int, int, float]], outputs: int) -> _SparseMap:
        """The map to `outputs` numbers with terms (number out, number in, factor)."""
        into = np.arange(0, outputs, block)
        ordered = sorted(terms)
        first = np.searchsorted([number for number, _, _ in ordered], [*into, outputs])
        place = np.array([place for _, place, _ in ordered], dtype=np.uint64)
        factor = np.array([factor for _, _, factor in ordered])
        return cls(block, into.astype(np.uint64), first, place, factor)

    def apply(self, given: Tensor, out: Tensor) -> None:
        """Write the image of each row of `given` to that of `out`."""
        numbers = given.numpy()
        factor = self.factor.astype(numbers.dtype)
        kernel = _apply_in_fours if self.block == _FOUR else _apply_one_by_one
        kernel(numbers, self.into, self.first, self.place, factor, out.numpy())


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
    def maps(self) -> tuple[_SparseMap, _SparseMap]:
        """From mixed features to matrices, and the way back, which is its transpose."""
        starts, harmonics = self._starts(), component_count(self.max_harmonic)
        block = _FOUR if all(count % _FOUR == 0 for count in self.types.channels) else 1
        columns = np.cumsum([0, *self.types.sizes])
        terms = []
        for number, path in enumerate(self.paths):
            start, width = starts[number]
            channels = self.types.channels[path.out_degree]
            coupling = coupling_coefficients(path.in_degree, path.harmonic, path.out_degree).numpy()
            for order, k, into in np.argwhere(np.abs(coupling) > 1e-12).tolist():
                factor = float(coupling[order, k, into]) * (2 * path.out_degree + 1) ** 0.5
                column = int(columns[path.out_degree]) + into * channels
                for radial in range(self.radial):
                    row = radial * harmonics + path.harmonic**2 + k
                    place = start + order * width + radial * channels
                    terms += [
                        (row * self.types.dim + column + c, place + c, factor)
                        for c in range(0, channels, block)
                    ]
        back = [(place, into, factor) for into, place, factor in terms]
        return (
            _SparseMap.of(block, terms, self.radial * harmonics * self.types.dim),
            _SparseMap.of(block, back, sum((2 * d + 1) * w for d, w in self._widths())),
        )

    def _starts(self) -> list[tuple[int, int]]:
        """For each path its first place in the mixed features, and the places of an order."""
        starts: dict[int, tuple[int, int]] = {}
        first = 0
        for degree, width in self._widths():
            start = first
            for number, path in enumerate(self.paths):
                if path.in_degree == degree:
                    starts[number] = (start, width)
                    start += self.radial * self.types.channels[path.out_degree]
            first += (2 * degree + 1) * width
        return [starts[number] for number in range(len(self.paths))]

    def _widths(self) -> list[tuple[int, int]]:
        """For each input degree how many mixed features an order of it has."""
        return [
            (
                degree,
                sum(
                    self.radial * self.types.channels[path.out_degree]
                    for path in self.paths
                    if path.in_degree == degree
                ),
            )
            for degree in range(self.in_degree + 1)
        ]


class _Assembled(torch.autograd.Function):
    """Mixed features to matrices: linear, so the way back needs no features."""

    @staticmethod
    def forward(ctx: Any, matrices: PointMatrices, mixed: Tensor) -> Tensor:
        there, ctx.back = matrices.maps()
        ctx.width = mixed.shape[1]
        rows = matrices.radial * component_count(matrices.max_harmonic)
        out = mixed.new_empty(len(mixed), rows * matrices.types.dim)
        there.apply(mixed.contiguous(), out)
        return out.unflatten(1, (rows, -1))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        by_out = grads[0].contiguous().flatten(1)
        by_mixed = by_out.new_empty(len(by_out), ctx.width)
        ctx.back.apply(by_out, by_mixed)
        return None, by_mixed


@compiled
@no_type_check
def _apply_in_fours(given, into, first, place, factor, out):
    """Sums in four variables become one vector each; unsigned indices are never from the end."""
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    for j in range(len(given)):
        for block in range(len(into)):
            a = b = c = d = given.dtype.type(0)
            for term in range(first[block], first[block + 1]):
                value, at = factor[term], place[term]
                a += value * given[j, at]
                b += value * given[j, at + one]
                c += value * given[j, at + two]
                d += value * given[j, at + three]
            to = into[block]
            out[j, to] = a
            out[j, to + one] = b
            out[j, to + two] = c
            out[j, to + three] = d


@compiled
@no_type_check
def _apply_one_by_one(given, into, first, place, factor, out):
    for j in range(len(given)):
        for block in range(len(into)):
            total = given.dtype.type(0)
            for term in range(first[block], first[block + 1]):
                total += factor[term] * given[j, place[term]]
            out[j, into[block]] = total

"""How the values of a descriptor field turn into colours and arrows for people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from handful.nn import Types

_MOST_VALUES = 1200
"""Values that are enough to fit a palette."""

_BANDWIDTH = 0.06
"""Values closer than this share of their spread count as alike."""

_SHARES = (0.03, 0.97)
"""Colours saturate where a component leaves these quantiles."""

_LEAST_REACH = 0.05
"""Of the strongest mix's reach: a weaker mix, maybe noise, counts as reaching this far."""

_DARKEST, _COMMON, _LIGHTEST = 0.08, 0.78, 0.96
"""Red, green and blue are least, of the most common value (light grey), and most."""


@dataclass(frozen=True, eq=False)
class FieldPalette:
    """Three numbers (a colour) from the type-0 part of a descriptor, a vector from its type-1 part.

    Both are principal components over channels, so colours do not change when the scene moves and
    arrows turn with it. The most common type-0 value, of the table as a rule, is light grey. One
    palette for several fields makes their pictures comparable.

    Attributes:
        types: What the descriptors hold.
        scalar_axes: Three mixes of the type-0 channels, strongest first [3, channels].
        common: The mixes of the most common value [3].
        reach: How far the mixes usually get from it [3].
        vector_mix: A mix of the type-1 channels [channels].
        vector_length: Length of a long vector of this mix; 0 if there is none.
    """

    types: Types
    scalar_axes: Float[np.ndarray, "3 scalars"]
    common: Float[np.ndarray, "3"]
    reach: Float[np.ndarray, "3"]
    vector_mix: Float[np.ndarray, "vectors"]
    vector_length: float

    @classmethod
    def fit(cls, values: Float[Tensor, "values dim"], types: Types) -> FieldPalette:
        """The palette that shows most of how descriptors differ.

        Values that occur often count less: else a large table would get all the colours.

        Args:
            values: Descriptors at many places.
            types: What they hold.
        """
        kept = values[:: -(-len(values) // _MOST_VALUES)]
        scalars, vectors = _scalars(kept, types), _vectors(kept, types)
        rarity = _rarity(scalars)
        center = rarity @ scalars
        axes = _leading(np.einsum("n,ni,nj->ij", rarity, scalars - center, scalars - center), 3)
        mixed = scalars @ axes.T
        common = mixed[int(rarity.argmin())]
        below, above = (abs(_quantiles(mixed, rarity, end) - common) for end in _SHARES)
        # The larger side becomes the darker one: there are more colours.
        sign = np.where(above > below, -1.0, 1.0)
        mix = _leading(np.einsum("n,nxi,nxj->ij", rarity, vectors, vectors), 1)[0]
        lengths = np.linalg.norm(vectors @ mix, axis=1)
        longest = float(_quantiles(lengths[:, None], rarity, _SHARES[1])[0])
        reach = np.maximum(below, above)
        reach = np.maximum(reach, _LEAST_REACH * reach.max())
        return cls(types, sign[:, None] * axes, sign * common, reach, mix, longest)

    def colors(self, values: Float[Tensor, "values dim"]) -> Float[np.ndarray, "values 3"]:
        """Red, green and blue of descriptors, from their type-0 part; grey if there is none."""
        away = _scalars(values, self.types) @ self.scalar_axes.T - self.common
        constant = self.reach <= 1e-6 * max(1e-6, float(np.abs(self.common).max()))
        share = np.where(constant, 0.0, away / np.where(constant, 1.0, self.reach))
        return (_COMMON + (_COMMON - _DARKEST) * share).clip(_DARKEST, _LIGHTEST)

    def arrows(self, values: Float[Tensor, "values dim"]) -> Float[np.ndarray, "values 3"]:
        """Vectors of descriptors, from their type-1 part; 1 is long, no unit."""
        scale = 1.0 / self.vector_length if self.vector_length > 0.0 else 0.0
        return scale * (_vectors(values, self.types) @ self.vector_mix)


def _scalars(values: Float[Tensor, "values dim"], types: Types) -> Float[np.ndarray, "values s"]:
    return _numpy(values[:, : types.sizes[0]])


def _vectors(values: Float[Tensor, "values dim"], types: Types) -> Float[np.ndarray, "values 3 v"]:
    """The type-1 part; rows of a block are x, y and z."""
    if types.max_degree < 1:
        return np.zeros((len(values), 3, 0))
    start, size = types.sizes[:2]
    return _numpy(values[:, start : start + size]).reshape(len(values), 3, types.channels[1])


def _numpy(values: Tensor) -> Shaped[np.ndarray, "..."]:
    return values.detach().cpu().to(torch.float64).numpy()


def _rarity(scalars: Float[np.ndarray, "values s"]) -> Float[np.ndarray, "values"]:
    """One over how many values are alike (a smooth count); sums to 1."""
    square = (scalars**2).sum(axis=1)
    distance = np.maximum(square[:, None] + square - 2.0 * scalars @ scalars.T, 0.0)
    width = _BANDWIDTH**2 * max(float(scalars.var(axis=0).sum()), 1e-24)
    rare = 1.0 / np.exp(-0.5 * distance / width).sum(axis=1)
    return rare / rare.sum()


def _leading(matrix: Float[np.ndarray, "n n"], count: int) -> Float[np.ndarray, "count n"]:
    """Eigenvectors of the largest eigenvalues as rows, largest entry positive; zeros if too few."""
    if not len(matrix):
        return np.zeros((count, 0))
    _, columns = np.linalg.eigh(matrix)
    rows = columns.T[::-1][:count]
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1, keepdims=True), axis=1)
    return np.concatenate([rows * np.sign(largest), np.zeros((count - len(rows), len(matrix)))])


def _quantiles(
    columns: Float[np.ndarray, "values columns"], weights: Float[np.ndarray, "values"], share: float
) -> Float[np.ndarray, "columns"]:
    """The value in each column below which `share` of the weight lies."""
    order = columns.argsort(axis=0)
    below = np.cumsum(weights[order], axis=0)
    found = [np.searchsorted(column, share) for column in below.T]
    rows = np.minimum(found, len(columns) - 1)
    return np.take_along_axis(np.take_along_axis(columns, order, 0), rows[None], 0)[0]

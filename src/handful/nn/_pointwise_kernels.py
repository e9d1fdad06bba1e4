"""Compiled loops over the points of layers that act on each point by itself, there and back.

Features are [points, (L+1)^2, channels]. Array operations take a pass over memory for each block of
orders, and again to put blocks together; these take one. Whole numbers are made numbers of the
features' type before they are multiplied: numba would compute in double precision otherwise.
"""

from __future__ import annotations

import math
from typing import no_type_check

from handful._compiled import compiled


@compiled
@no_type_check
def normalise(features, scale, floor, sizes, out):
    """Divide each degree by its size, and scale channels.

    Args:
        features: What is normalised.
        scale: [degrees, channels].
        floor: Size that counts for a degree whose features are all zero.
        sizes: One over the size of each degree of each point [points, degrees]; written.
        out: Written.
    """
    channels, number = features.shape[2], features.dtype.type
    for i in range(len(features)):
        for degree in range(len(scale)):
            first, last = degree * degree, (degree + 1) * (degree + 1)
            total = number(0)
            for row in range(first, last):
                for c in range(channels):
                    total += features[i, row, c] * features[i, row, c]
            count = (last - first) * channels
            size = number(1.0 / math.sqrt(total / count + floor * floor))
            sizes[i, degree] = size
            for row in range(first, last):
                for c in range(channels):
                    out[i, row, c] = features[i, row, c] * size * scale[degree, c]


@compiled
@no_type_check
def normalise_back(features, scale, sizes, by_out, by_features, by_scale):
    """Derivatives of `normalise`: by features, which are written, and by scale, added to."""
    channels, number = features.shape[2], features.dtype.type
    for i in range(len(features)):
        for degree in range(len(scale)):
            first, last = degree * degree, (degree + 1) * (degree + 1)
            size = sizes[i, degree]
            along = number(0)
            for row in range(first, last):
                for c in range(channels):
                    along += by_out[i, row, c] * features[i, row, c] * scale[degree, c]
                for c in range(channels):
                    by_scale[degree, c] += by_out[i, row, c] * features[i, row, c] * size
            pull = along * size * size * size * number(1.0 / ((last - first) * channels))
            for row in range(first, last):
                for c in range(channels):
                    by_features[i, row, c] = (
                        by_out[i, row, c] * scale[degree, c] * size - features[i, row, c] * pull
                    )


@compiled
@no_type_check
def invariants(features, scalars, squares):
    """Write type 0, and of each channel of each degree from 1 on the mean square over orders.

    Args:
        features: [points, components, channels].
        scalars: Type 0 [points, channels].
        squares: [points, degrees, channels].
    """
    channels, number = features.shape[2], features.dtype.type
    for i in range(len(features)):
        for c in range(channels):
            scalars[i, c] = features[i, 0, c]
        for degree in range(1, squares.shape[1] + 1):
            first, last = degree * degree, (degree + 1) * (degree + 1)
            for c in range(channels):
                squares[i, degree - 1, c] = features[i, first, c] * features[i, first, c]
            for row in range(first + 1, last):
                for c in range(channels):
                    squares[i, degree - 1, c] += features[i, row, c] * features[i, row, c]
            share = number(1.0 / (last - first))
            for c in range(channels):
                squares[i, degree - 1, c] *= share


@compiled
@no_type_check
def invariants_back(features, by_scalars, by_squares, by_features):
    """Derivatives of `invariants` by features, which are written."""
    channels, number = features.shape[2], features.dtype.type
    for i in range(len(features)):
        for c in range(channels):
            by_features[i, 0, c] = by_scalars[i, c]
        for degree in range(1, by_squares.shape[1] + 1):
            first, last = degree * degree, (degree + 1) * (degree + 1)
            share = number(2.0 / (last - first))
            for row in range(first, last):
                for c in range(channels):
                    pull = by_squares[i, degree - 1, c] * share
                    by_features[i, row, c] = features[i, row, c] * pull


@compiled
@no_type_check
def gate(features, scalars, gates, out):
    """Put type 0 in, and multiply every other degree by its gates [points, degrees, channels]."""
    channels = features.shape[2]
    for i in range(len(features)):
        for c in range(channels):
            out[i, 0, c] = scalars[i, c]
        for degree in range(1, gates.shape[1] + 1):
            for row in range(degree * degree, (degree + 1) * (degree + 1)):
                for c in range(channels):
                    out[i, row, c] = features[i, row, c] * gates[i, degree - 1, c]


@compiled
@no_type_check
def gate_back(features, gates, by_out, by_features, by_scalars, by_gates):
    """Derivatives of `gate` by features, type 0 and gates; all are written."""
    channels = features.shape[2]
    for i in range(len(features)):
        for c in range(channels):
            by_features[i, 0, c] = 0
            by_scalars[i, c] = by_out[i, 0, c]
        for degree in range(1, gates.shape[1] + 1):
            for c in range(channels):
                by_gates[i, degree - 1, c] = 0
            for row in range(degree * degree, (degree + 1) * (degree + 1)):
                for c in range(channels):
                    by_features[i, row, c] = by_out[i, row, c] * gates[i, degree - 1, c]
                for c in range(channels):
                    by_gates[i, degree - 1, c] += by_out[i, row, c] * features[i, row, c]

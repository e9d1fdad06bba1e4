"""Compiled loops over the edges of a depthwise convolution with attention, there and back.

Array operations take a pass over memory for each of gathering, turning, mixing, weighing and
summing the features of edges, and the passes take longer than the arithmetic. Here one loop does
all of it for an edge while its numbers are in the nearest cache. The way back computes them again.

Rows of an edge's frame lie one after the other, each with all channels, in the order of degree and
order: 0, then -1, 0, 1, then -2, -1, 0, 1, 2. In names of rows, z stands for order 0, p and n for 1
and -1, pp and nn for 2 and -2, and the digit is the degree. Loops over channels hold no other loop
and write to one array, so that the compiler makes vector operations of them. For the same reason
their length is a constant where they are put in (`inline`), and numbers that all channels share are
taken out of their array before.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import numba
import numpy as np

from handful._compiled import compiled, for_sizes


class DepthwiseKernels(NamedTuple):
    """Kernels for features and messages up to degree 2.

    All take first: features [points, 9 * channels], queries [points, channels], source and target
    of the edges, the knots below their lengths and the parts of the way to the next ones, a table
    of weights [knots, 22 * channels] and entries of the edges' Wigner matrices [edges, 35]. Weights
    are in the order of `Couplings.between(2, 2)`.

    What strength an edge's product of query and key gives it is not computed here: exponentials one
    by one take as long as all the rest of an edge.

    Attributes:
        products: And then the products [edges, heads], which are written.
        there: And then strengths [edges, heads], and sums [points, 9 * channels] of weighed
            messages and totals [points, heads] of strengths, which are added to.
        back: And then strengths and how much they rise with the products, the derivatives of a loss
            by sums and totals, and arrays like features, queries and table, to which the
            derivatives of that loss by them are added.
    """

    products: Any
    there: Any
    back: Any


@for_sizes
@no_type_check
def depthwise_kernels(known: int) -> DepthwiseKernels:
    """Kernels for a number of channels; 0 for any."""

    @compiled
    def products(features, queries, source, target, knot, part, table, turns, out):
        channels = known or queries.shape[1]
        heads = out.shape[1]
        keys, share = np.empty(channels, features.dtype), channels // heads
        for e in range(len(source)):
            i = target[e]
            low, high = table[knot[e]], table[knot[e] + 1]
            _keys_alone(turns[e], features[source[e]], low, high, part[e], channels, keys)
            for h in range(heads):
                product = queries[i, h * share] * keys[h * share]
                for c in range(h * share + 1, (h + 1) * share):
                    product += queries[i, c] * keys[c]
                out[e, h] = product

    @compiled
    def there(
        features, queries, source, target, knot, part, table, turns, strengths, sums, totals,
    ):  # fmt: skip
        channels = known or queries.shape[1]
        heads = strengths.shape[1]
        size = 22 * channels
        w, rows = np.empty(size, features.dtype), np.empty(9 * channels, features.dtype)
        strength, share = np.empty(channels, features.dtype), channels // heads
        for e in range(len(source)):
            i = target[e]
            _weights_of_edge(table[knot[e]], table[knot[e] + 1], part[e], size, w)
            _turn_in(turns[e], features[source[e]], channels, rows)
            for h in range(heads):
                totals[i, h] += strengths[e, h]
                for c in range(h * share, (h + 1) * share):
                    strength[c] = strengths[e, h]
            _mix(w, strength, channels, rows)
            _turn_out(turns[e], rows, channels, sums[i])

    @compiled
    def back(
        features, queries, source, target, knot, part, table, turns, strengths, rises,
        by_sums, by_totals, by_features, by_queries, by_table,
    ):  # fmt: skip
        channels = known or queries.shape[1]
        heads = strengths.shape[1]
        size = 22 * channels
        w, by_w = np.empty(size, features.dtype), np.empty(size, features.dtype)
        rows, mixed = np.empty(9 * channels, features.dtype), np.empty(9 * channels, features.dtype)
        slopes, ones = np.empty(9 * channels, features.dtype), np.ones(channels, features.dtype)
        keys, dots = np.empty(channels, features.dtype), np.empty(channels, features.dtype)
        strength, pulls = np.empty(channels, features.dtype), np.empty(channels, features.dtype)
        share = channels // heads
        for e in range(len(source)):
            i, j, k = target[e], source[e], knot[e]
            _weights_of_edge(table[k], table[k + 1], part[e], size, w)
            _turn_in(turns[e], features[j], channels, rows)
            _keys(w, rows, channels, keys)
            mixed[:] = rows
            _mix(w, ones, channels, mixed)
            _turn_in(turns[e], by_sums[i], channels, slopes)
            dots[:] = 0.0
            for row in range(9):
                for c in range(channels):
                    dots[c] += slopes[row * channels + c] * mixed[row * channels + c]
            for h in range(heads):
                by_strength = by_totals[i, h] + dots[h * share]
                for c in range(h * share + 1, (h + 1) * share):
                    by_strength += dots[c]
                value, pull = strengths[e, h], by_strength * rises[e, h]
                for c in range(h * share, (h + 1) * share):
                    strength[c], pulls[c] = value, pull
            for c in range(channels):
                by_queries[i, c] += pulls[c] * keys[c]
            for c in range(channels):
                pulls[c] *= queries[i, c]
            for row in range(9):
                for c in range(channels):
                    slopes[row * channels + c] *= strength[c]
            _by_weights_of_edge(rows, slopes, pulls, channels, by_w)
            _mix_back(w, slopes, pulls, channels, rows)
            _turn_out(turns[e], rows, channels, by_features[j])
            # A number of Python would make all of the loop's numbers as precise as itself.
            _add_times(part.dtype.type(1) - part[e], by_w, size, by_table[k])
            _add_times(part[e], by_w, size, by_table[k + 1])

    return DepthwiseKernels(products, there, back)


# --- parts of the kernels, for one edge ---------------------------------------------------------
# fmt: off


@numba.njit(inline="always")
@no_type_check
def _weights_of_edge(low, high, part, size, w):
    """Weights w [22 rows] of an edge between two knots."""
    for k in range(size):
        w[k] = low[k] + part * (high[k] - low[k])


@numba.njit(inline="always")
@no_type_check
def _add_times(factor, given, size, out):
    for k in range(size):
        out[k] += factor * given[k]


@numba.njit(inline="always")
@no_type_check
def _turn_in(u, f, n, rows):
    """Features f of a point as rows of the frame of an edge, whose Wigner matrices are u."""
    t1, t2, t3, t4, t5, t6, t7, t8, t9 = u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9]
    a0, a1, a2, a3, a4 = u[10], u[11], u[12], u[13], u[14]
    b0, b1, b2, b3, b4 = u[15], u[16], u[17], u[18], u[19]
    c0, c1, c2, c3, c4 = u[20], u[21], u[22], u[23], u[24]
    d0, d1, d2, d3, d4 = u[25], u[26], u[27], u[28], u[29]
    e0, e1, e2, e3, e4 = u[30], u[31], u[32], u[33], u[34]
    for c in range(n):
        x, y, z = f[n + c], f[2 * n + c], f[3 * n + c]
        p, q, r, s, t = f[4 * n + c], f[5 * n + c], f[6 * n + c], f[7 * n + c], f[8 * n + c]
        rows[c] = f[c]
        rows[n + c] = t1 * x + t2 * y + t3 * z
        rows[2 * n + c] = t4 * x + t5 * y + t6 * z
        rows[3 * n + c] = t7 * x + t8 * y + t9 * z
        rows[4 * n + c] = a0 * p + a1 * q + a2 * r + a3 * s + a4 * t
        rows[5 * n + c] = b0 * p + b1 * q + b2 * r + b3 * s + b4 * t
        rows[6 * n + c] = c0 * p + c1 * q + c2 * r + c3 * s + c4 * t
        rows[7 * n + c] = d0 * p + d1 * q + d2 * r + d3 * s + d4 * t
        rows[8 * n + c] = e0 * p + e1 * q + e2 * r + e3 * s + e4 * t


@numba.njit(inline="always")
@no_type_check
def _turn_out(u, rows, n, out):
    """Add rows of the frame of an edge to features of a point: `_turn_in` with transposed u."""
    t1, t2, t3, t4, t5, t6, t7, t8, t9 = u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9]
    a0, a1, a2, a3, a4 = u[10], u[11], u[12], u[13], u[14]
    b0, b1, b2, b3, b4 = u[15], u[16], u[17], u[18], u[19]
    c0, c1, c2, c3, c4 = u[20], u[21], u[22], u[23], u[24]
    d0, d1, d2, d3, d4 = u[25], u[26], u[27], u[28], u[29]
    e0, e1, e2, e3, e4 = u[30], u[31], u[32], u[33], u[34]
    for c in range(n):
        x, y, z = rows[n + c], rows[2 * n + c], rows[3 * n + c]
        p, q, r, s, t = (rows[4 * n + c], rows[5 * n + c], rows[6 * n + c], rows[7 * n + c],
                         rows[8 * n + c])
        out[c] += rows[c]
        out[n + c] += t1 * x + t4 * y + t7 * z
        out[2 * n + c] += t2 * x + t5 * y + t8 * z
        out[3 * n + c] += t3 * x + t6 * y + t9 * z
        out[4 * n + c] += a0 * p + b0 * q + c0 * r + d0 * s + e0 * t
        out[5 * n + c] += a1 * p + b1 * q + c1 * r + d1 * s + e1 * t
        out[6 * n + c] += a2 * p + b2 * q + c2 * r + d2 * s + e2 * t
        out[7 * n + c] += a3 * p + b3 * q + c3 * r + d3 * s + e3 * t
        out[8 * n + c] += a4 * p + b4 * q + c4 * r + d4 * s + e4 * t


@numba.njit(inline="always")
@no_type_check
def _keys_alone(u, f, low, high, part, n, keys):
    """The keys, which rows of order 0 are enough for: `_turn_in` and `_keys` in one."""
    t4, t5, t6 = u[4], u[5], u[6]
    c0, c1, c2, c3, c4 = u[20], u[21], u[22], u[23], u[24]
    for c in range(n):
        z1 = t4 * f[n + c] + t5 * f[2 * n + c] + t6 * f[3 * n + c]
        z2 = (c0 * f[4 * n + c] + c1 * f[5 * n + c] + c2 * f[6 * n + c] + c3 * f[7 * n + c]
              + c4 * f[8 * n + c])
        i, j, k = 19 * n + c, 20 * n + c, 21 * n + c
        keys[c] = ((low[i] + part * (high[i] - low[i])) * f[c]
                   + (low[j] + part * (high[j] - low[j])) * z1
                   + (low[k] + part * (high[k] - low[k])) * z2)


@numba.njit(inline="always")
@no_type_check
def _keys(w, rows, n, keys):
    """Keys of an edge, from its rows of order 0."""
    for c in range(n):
        keys[c] = (w[19 * n + c] * rows[c] + w[20 * n + c] * rows[2 * n + c]
                   + w[21 * n + c] * rows[6 * n + c])


@numba.njit(inline="always")
@no_type_check
def _mix(w, strength, n, rows):
    """The message of an edge in the place of its rows, times its strength."""
    for c in range(n):
        s = strength[c]
        z0, n1, z1, p1 = rows[c], rows[n + c], rows[2 * n + c], rows[3 * n + c]
        nn, n2, z2 = rows[4 * n + c], rows[5 * n + c], rows[6 * n + c]
        p2, pp = rows[7 * n + c], rows[8 * n + c]
        a, b, d, e = w[9 * n + c], w[10 * n + c], w[11 * n + c], w[12 * n + c]
        f, g, h, k = w[13 * n + c], w[14 * n + c], w[15 * n + c], w[16 * n + c]
        u, v = w[17 * n + c], w[18 * n + c]
        rows[c] = s * (w[c] * z0 + w[n + c] * z1 + w[2 * n + c] * z2)
        rows[2 * n + c] = s * (w[3 * n + c] * z0 + w[4 * n + c] * z1 + w[5 * n + c] * z2)
        rows[6 * n + c] = s * (w[6 * n + c] * z0 + w[7 * n + c] * z1 + w[8 * n + c] * z2)
        rows[3 * n + c] = s * (a * p1 - b * n1 + d * p2 - e * n2)
        rows[n + c] = s * (a * n1 + b * p1 + d * n2 + e * p2)
        rows[7 * n + c] = s * (f * p1 - g * n1 + h * p2 - k * n2)
        rows[5 * n + c] = s * (f * n1 + g * p1 + h * n2 + k * p2)
        rows[8 * n + c] = s * (u * pp - v * nn)
        rows[4 * n + c] = s * (u * nn + v * pp)


@numba.njit(inline="always")
@no_type_check
def _mix_back(w, slopes, pulls, n, rows):
    """Derivatives by the rows, given those by the message (`slopes`) and by the keys (`pulls`)."""
    for c in range(n):
        pull, z0, n1, z1 = pulls[c], slopes[c], slopes[n + c], slopes[2 * n + c]
        p1, nn, n2 = slopes[3 * n + c], slopes[4 * n + c], slopes[5 * n + c]
        z2, p2, pp = slopes[6 * n + c], slopes[7 * n + c], slopes[8 * n + c]
        a, b, d, e = w[9 * n + c], w[10 * n + c], w[11 * n + c], w[12 * n + c]
        f, g, h, k = w[13 * n + c], w[14 * n + c], w[15 * n + c], w[16 * n + c]
        u, v = w[17 * n + c], w[18 * n + c]
        rows[c] = w[c] * z0 + w[3 * n + c] * z1 + w[6 * n + c] * z2 + w[19 * n + c] * pull
        rows[2 * n + c] = (w[n + c] * z0 + w[4 * n + c] * z1 + w[7 * n + c] * z2
                           + w[20 * n + c] * pull)
        rows[6 * n + c] = (w[2 * n + c] * z0 + w[5 * n + c] * z1 + w[8 * n + c] * z2
                           + w[21 * n + c] * pull)
        rows[3 * n + c] = a * p1 + b * n1 + f * p2 + g * n2
        rows[n + c] = a * n1 - b * p1 + f * n2 - g * p2
        rows[7 * n + c] = d * p1 + e * n1 + h * p2 + k * n2
        rows[5 * n + c] = d * n1 - e * p1 + h * n2 - k * p2
        rows[8 * n + c] = u * pp + v * nn
        rows[4 * n + c] = u * nn - v * pp


@numba.njit(inline="always")
@no_type_check
def _by_weights_of_edge(rows, slopes, pulls, n, by_w):
    """Derivatives by the weights of the edge."""
    for c in range(n):
        z0, n1, z1, p1 = rows[c], rows[n + c], rows[2 * n + c], rows[3 * n + c]
        nn, n2, z2 = rows[4 * n + c], rows[5 * n + c], rows[6 * n + c]
        p2, pp = rows[7 * n + c], rows[8 * n + c]
        pull, by_z0, by_n1, by_z1 = pulls[c], slopes[c], slopes[n + c], slopes[2 * n + c]
        by_p1, by_nn, by_n2 = slopes[3 * n + c], slopes[4 * n + c], slopes[5 * n + c]
        by_z2, by_p2, by_pp = slopes[6 * n + c], slopes[7 * n + c], slopes[8 * n + c]
        by_w[c], by_w[n + c], by_w[2 * n + c] = by_z0 * z0, by_z0 * z1, by_z0 * z2
        by_w[3 * n + c], by_w[4 * n + c], by_w[5 * n + c] = by_z1 * z0, by_z1 * z1, by_z1 * z2
        by_w[6 * n + c], by_w[7 * n + c], by_w[8 * n + c] = by_z2 * z0, by_z2 * z1, by_z2 * z2
        by_w[9 * n + c] = by_p1 * p1 + by_n1 * n1
        by_w[10 * n + c] = by_n1 * p1 - by_p1 * n1
        by_w[11 * n + c] = by_p1 * p2 + by_n1 * n2
        by_w[12 * n + c] = by_n1 * p2 - by_p1 * n2
        by_w[13 * n + c] = by_p2 * p1 + by_n2 * n1
        by_w[14 * n + c] = by_n2 * p1 - by_p2 * n1
        by_w[15 * n + c] = by_p2 * p2 + by_n2 * n2
        by_w[16 * n + c] = by_n2 * p2 - by_p2 * n2
        by_w[17 * n + c] = by_pp * pp + by_nn * nn
        by_w[18 * n + c] = by_nn * pp - by_pp * nn
        by_w[19 * n + c], by_w[20 * n + c] = pull * z0, pull * z1
        by_w[21 * n + c] = pull * z2


# fmt: on

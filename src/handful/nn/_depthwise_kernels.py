"""Compiled loops over the edges of a depthwise convolution with attention, there and back.

Array operations take a pass over memory for each of gathering, turning, mixing, weighing and
summing the features of edges, and the passes take longer than the arithmetic. Here one loop does
all of it for an edge while its numbers are in the nearest cache. The way back computes them again.
Kernels are compiled at their first use and kept on disk (numba); the number of channels is a
constant to the compiler, which keeps a row of channels in vector registers.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple, no_type_check

import numba
import numpy as np
from numba.np.unsafe.ndarray import to_fixed_tuple

COMPILED: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz"},
}
"""How kernels are compiled. Sums may be reordered; infinities and NaN are kept as they are.

A kernel that is made by a function may use the kernels of its module, but none of that function:
numba would compile it anew in every process.
"""


class DepthwiseKernels(NamedTuple):
    """Kernels for features and messages up to degree 2.

    Both take first: features [points, 9 * channels], queries [points, channels], source and target
    of the edges, their cut-off and radial functions [edges, functions], weights [functions, 22 *
    channels], entries of the edges' Wigner matrices [edges, 35], the number of heads and the
    largest absolute logit. Weights are in the order of `Couplings.between(2, 2)`.

    Attributes:
        there: And then sums [points, 9 * channels] of weighed messages and totals [points, heads]
            of strengths, which are added to.
        back: And then the derivatives of a loss by these sums and totals, and arrays like features,
            queries and weights, to which the derivatives of that loss by them are added.
    """

    there: Any
    back: Any


@lru_cache(maxsize=16)
@no_type_check
def depthwise_kernels(channels: int, functions: int) -> DepthwiseKernels:
    """Kernels whose loops over channels and radial functions have a known length.

    Rows of an edge's frame are named by their order, z for 0, p and n for 1 and -1, pp and nn for
    2 and -2, and by their degree. Loops over channels have no loop inside and write to one array:
    the compiler then makes vector operations of each line.
    """
    size = 22 * channels
    o1, o2, o3, o4, o5, o6, o7, o8, o9, o10, o11 = (row * channels for row in range(1, 12))
    o12, o13, o14, o15, o16, o17, o18, o19, o20, o21 = (row * channels for row in range(12, 22))

    @numba.njit(**COMPILED)
    def there(
        features, queries, source, target, cutoff, basis, weights, turns, heads, limit, sums, totals
    ):
        w, rows = np.empty(22 * channels, features.dtype), np.empty(9 * channels, features.dtype)
        dots = np.empty(channels, features.dtype)
        share = channels // heads
        for e in range(len(source)):
            i, j = target[e], source[e]
            u = turns[e]
            t1, t2, t3, t4, t5, t6, t7, t8, t9 = (
                u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9])  # fmt: skip
            t10, t11, t12, t13, t14 = u[10], u[11], u[12], u[13], u[14]
            t15, t16, t17, t18, t19 = u[15], u[16], u[17], u[18], u[19]
            t20, t21, t22, t23, t24 = u[20], u[21], u[22], u[23], u[24]
            t25, t26, t27, t28, t29 = u[25], u[26], u[27], u[28], u[29]
            t30, t31, t32, t33, t34 = u[30], u[31], u[32], u[33], u[34]
            g = to_fixed_tuple(basis[e], functions)
            for k in range(size):
                total = g[0] * weights[0, k]
                for b in range(1, functions):
                    total += g[b] * weights[b, k]
                w[k] = total
            f = features[j]
            for c in range(channels):
                f0, f1, f2, f3 = f[c], f[o1 + c], f[o2 + c], f[o3 + c]
                f4, f5, f6, f7, f8 = (
                    f[o4 + c],
                    f[o5 + c],
                    f[o6 + c],
                    f[o7 + c],
                    f[o8 + c],
                )
                rows[c] = f0
                rows[o1 + c] = t1 * f1 + t2 * f2 + t3 * f3
                rows[o2 + c] = t4 * f1 + t5 * f2 + t6 * f3
                rows[o3 + c] = t7 * f1 + t8 * f2 + t9 * f3
                rows[o4 + c] = t10 * f4 + t11 * f5 + t12 * f6 + t13 * f7 + t14 * f8
                rows[o5 + c] = t15 * f4 + t16 * f5 + t17 * f6 + t18 * f7 + t19 * f8
                rows[o6 + c] = t20 * f4 + t21 * f5 + t22 * f6 + t23 * f7 + t24 * f8
                rows[o7 + c] = t25 * f4 + t26 * f5 + t27 * f6 + t28 * f7 + t29 * f8
                rows[o8 + c] = t30 * f4 + t31 * f5 + t32 * f6 + t33 * f7 + t34 * f8
            for c in range(channels):
                key = w[o19 + c] * rows[c] + w[o20 + c] * rows[o2 + c] + w[o21 + c] * rows[o6 + c]
                dots[c] = queries[i, c] * key
            for h in range(heads):
                product = dots[h * share]
                for c in range(h * share + 1, (h + 1) * share):
                    product += dots[c]
                bent = math.tanh(product / (limit * math.sqrt(share)))
                strength = cutoff[e] * math.exp(limit * bent)
                totals[i, h] += strength
                for c in range(h * share, (h + 1) * share):
                    dots[c] = strength
            for c in range(channels):
                z0, n1, z1, p1 = (
                    rows[c],
                    rows[o1 + c],
                    rows[o2 + c],
                    rows[o3 + c],
                )
                nn, n2, z2, p2, pp = (
                    rows[o4 + c],
                    rows[o5 + c],
                    rows[o6 + c],
                    rows[o7 + c],
                    rows[o8 + c],
                )
                s = dots[c]
                rows[c] = s * (w[c] * z0 + w[o1 + c] * z1 + w[o2 + c] * z2)
                rows[o2 + c] = s * (w[o3 + c] * z0 + w[o4 + c] * z1 + w[o5 + c] * z2)
                rows[o6 + c] = s * (w[o6 + c] * z0 + w[o7 + c] * z1 + w[o8 + c] * z2)
                rows[o3 + c] = s * (
                    w[o9 + c] * p1 - w[o10 + c] * n1 + w[o11 + c] * p2 - w[o12 + c] * n2
                )
                rows[o1 + c] = s * (
                    w[o9 + c] * n1 + w[o10 + c] * p1 + w[o11 + c] * n2 + w[o12 + c] * p2
                )
                rows[o7 + c] = s * (
                    w[o13 + c] * p1 - w[o14 + c] * n1 + w[o15 + c] * p2 - w[o16 + c] * n2
                )
                rows[o5 + c] = s * (
                    w[o13 + c] * n1 + w[o14 + c] * p1 + w[o15 + c] * n2 + w[o16 + c] * p2
                )
                rows[o8 + c] = s * (w[o17 + c] * pp - w[o18 + c] * nn)
                rows[o4 + c] = s * (w[o17 + c] * nn + w[o18 + c] * pp)
            out = sums[i]
            for c in range(channels):
                n1, z1, p1, nn = (
                    rows[o1 + c],
                    rows[o2 + c],
                    rows[o3 + c],
                    rows[o4 + c],
                )
                n2, z2, p2, pp = (
                    rows[o5 + c],
                    rows[o6 + c],
                    rows[o7 + c],
                    rows[o8 + c],
                )
                out[c] += rows[c]
                out[o1 + c] += t1 * n1 + t4 * z1 + t7 * p1
                out[o2 + c] += t2 * n1 + t5 * z1 + t8 * p1
                out[o3 + c] += t3 * n1 + t6 * z1 + t9 * p1
                out[o4 + c] += t10 * nn + t15 * n2 + t20 * z2 + t25 * p2 + t30 * pp
                out[o5 + c] += t11 * nn + t16 * n2 + t21 * z2 + t26 * p2 + t31 * pp
                out[o6 + c] += t12 * nn + t17 * n2 + t22 * z2 + t27 * p2 + t32 * pp
                out[o7 + c] += t13 * nn + t18 * n2 + t23 * z2 + t28 * p2 + t33 * pp
                out[o8 + c] += t14 * nn + t19 * n2 + t24 * z2 + t29 * p2 + t34 * pp

    @numba.njit(**COMPILED)
    def back(
        features, queries, source, target, cutoff, basis, weights, turns, heads, limit,
        by_sums, by_totals, by_features, by_queries, by_weights,
    ):  # fmt: skip
        w, by_w = np.empty(size, features.dtype), np.empty(size, features.dtype)
        rows = np.empty(9 * channels, features.dtype)
        slopes = np.empty(9 * channels, features.dtype)
        keys, dots = np.empty(channels, features.dtype), np.empty(channels, features.dtype)
        pulls = np.empty(channels, features.dtype)
        share = channels // heads
        for e in range(len(source)):
            i, j = target[e], source[e]
            u = turns[e]
            t1, t2, t3, t4, t5, t6, t7, t8, t9 = (
                u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9])  # fmt: skip
            t10, t11, t12, t13, t14 = u[10], u[11], u[12], u[13], u[14]
            t15, t16, t17, t18, t19 = u[15], u[16], u[17], u[18], u[19]
            t20, t21, t22, t23, t24 = u[20], u[21], u[22], u[23], u[24]
            t25, t26, t27, t28, t29 = u[25], u[26], u[27], u[28], u[29]
            t30, t31, t32, t33, t34 = u[30], u[31], u[32], u[33], u[34]
            g = to_fixed_tuple(basis[e], functions)
            for k in range(size):
                total = g[0] * weights[0, k]
                for b in range(1, functions):
                    total += g[b] * weights[b, k]
                w[k] = total
            f, d = features[j], by_sums[i]
            for c in range(channels):
                f0, f1, f2, f3 = f[c], f[o1 + c], f[o2 + c], f[o3 + c]
                f4, f5, f6, f7, f8 = (
                    f[o4 + c],
                    f[o5 + c],
                    f[o6 + c],
                    f[o7 + c],
                    f[o8 + c],
                )
                rows[c] = f0
                rows[o1 + c] = t1 * f1 + t2 * f2 + t3 * f3
                rows[o2 + c] = t4 * f1 + t5 * f2 + t6 * f3
                rows[o3 + c] = t7 * f1 + t8 * f2 + t9 * f3
                rows[o4 + c] = t10 * f4 + t11 * f5 + t12 * f6 + t13 * f7 + t14 * f8
                rows[o5 + c] = t15 * f4 + t16 * f5 + t17 * f6 + t18 * f7 + t19 * f8
                rows[o6 + c] = t20 * f4 + t21 * f5 + t22 * f6 + t23 * f7 + t24 * f8
                rows[o7 + c] = t25 * f4 + t26 * f5 + t27 * f6 + t28 * f7 + t29 * f8
                rows[o8 + c] = t30 * f4 + t31 * f5 + t32 * f6 + t33 * f7 + t34 * f8
            for c in range(channels):
                d1, d2, d3, d4 = (
                    d[o1 + c],
                    d[o2 + c],
                    d[o3 + c],
                    d[o4 + c],
                )
                d5, d6, d7, d8 = (
                    d[o5 + c],
                    d[o6 + c],
                    d[o7 + c],
                    d[o8 + c],
                )
                slopes[c] = d[c]
                slopes[o1 + c] = t1 * d1 + t2 * d2 + t3 * d3
                slopes[o2 + c] = t4 * d1 + t5 * d2 + t6 * d3
                slopes[o3 + c] = t7 * d1 + t8 * d2 + t9 * d3
                slopes[o4 + c] = t10 * d4 + t11 * d5 + t12 * d6 + t13 * d7 + t14 * d8
                slopes[o5 + c] = t15 * d4 + t16 * d5 + t17 * d6 + t18 * d7 + t19 * d8
                slopes[o6 + c] = t20 * d4 + t21 * d5 + t22 * d6 + t23 * d7 + t24 * d8
                slopes[o7 + c] = t25 * d4 + t26 * d5 + t27 * d6 + t28 * d7 + t29 * d8
                slopes[o8 + c] = t30 * d4 + t31 * d5 + t32 * d6 + t33 * d7 + t34 * d8
            for c in range(channels):
                z0, n1, z1, p1 = (
                    rows[c],
                    rows[o1 + c],
                    rows[o2 + c],
                    rows[o3 + c],
                )
                nn, n2, z2, p2, pp = (
                    rows[o4 + c],
                    rows[o5 + c],
                    rows[o6 + c],
                    rows[o7 + c],
                    rows[o8 + c],
                )
                keys[c] = w[o19 + c] * z0 + w[o20 + c] * z1 + w[o21 + c] * z2
                total = slopes[c] * (w[c] * z0 + w[o1 + c] * z1 + w[o2 + c] * z2)
                total += slopes[o2 + c] * (w[o3 + c] * z0 + w[o4 + c] * z1 + w[o5 + c] * z2)
                total += slopes[o6 + c] * (w[o6 + c] * z0 + w[o7 + c] * z1 + w[o8 + c] * z2)
                total += slopes[o3 + c] * (
                    w[o9 + c] * p1 - w[o10 + c] * n1 + w[o11 + c] * p2 - w[o12 + c] * n2
                )
                total += slopes[o1 + c] * (
                    w[o9 + c] * n1 + w[o10 + c] * p1 + w[o11 + c] * n2 + w[o12 + c] * p2
                )
                total += slopes[o7 + c] * (
                    w[o13 + c] * p1 - w[o14 + c] * n1 + w[o15 + c] * p2 - w[o16 + c] * n2
                )
                total += slopes[o5 + c] * (
                    w[o13 + c] * n1 + w[o14 + c] * p1 + w[o15 + c] * n2 + w[o16 + c] * p2
                )
                total += slopes[o8 + c] * (w[o17 + c] * pp - w[o18 + c] * nn)
                total += slopes[o4 + c] * (w[o17 + c] * nn + w[o18 + c] * pp)
                dots[c] = total
            for h in range(heads):
                product = queries[i, h * share] * keys[h * share]
                by_strength = by_totals[i, h] + dots[h * share]
                for c in range(h * share + 1, (h + 1) * share):
                    product += queries[i, c] * keys[c]
                    by_strength += dots[c]
                bent = math.tanh(product / (limit * math.sqrt(share)))
                strength = cutoff[e] * math.exp(limit * bent)
                pull = by_strength * strength * (1.0 - bent * bent) / math.sqrt(share)
                for c in range(h * share, (h + 1) * share):
                    dots[c], pulls[c] = strength, pull
            for c in range(channels):
                by_queries[i, c] += pulls[c] * keys[c]
            for c in range(channels):
                pulls[c] *= queries[i, c]
            for c in range(channels):
                z0, n1, z1, p1 = (
                    rows[c],
                    rows[o1 + c],
                    rows[o2 + c],
                    rows[o3 + c],
                )
                nn, n2, z2, p2, pp = (
                    rows[o4 + c],
                    rows[o5 + c],
                    rows[o6 + c],
                    rows[o7 + c],
                    rows[o8 + c],
                )
                s, pull = dots[c], pulls[c]
                dz0, dn1, dz1 = (
                    s * slopes[c],
                    s * slopes[o1 + c],
                    s * slopes[o2 + c],
                )
                dp1, dnn, dn2 = (
                    s * slopes[o3 + c],
                    s * slopes[o4 + c],
                    s * slopes[o5 + c],
                )
                dz2, dp2, dpp = (
                    s * slopes[o6 + c],
                    s * slopes[o7 + c],
                    s * slopes[o8 + c],
                )
                by_w[c], by_w[o1 + c], by_w[o2 + c] = (
                    dz0 * z0,
                    dz0 * z1,
                    dz0 * z2,
                )
                by_w[o3 + c], by_w[o4 + c], by_w[o5 + c] = (
                    dz1 * z0,
                    dz1 * z1,
                    dz1 * z2,
                )
                by_w[o6 + c], by_w[o7 + c], by_w[o8 + c] = (
                    dz2 * z0,
                    dz2 * z1,
                    dz2 * z2,
                )
                by_w[o9 + c], by_w[o10 + c] = (
                    dp1 * p1 + dn1 * n1,
                    dn1 * p1 - dp1 * n1,
                )
                by_w[o11 + c], by_w[o12 + c] = (
                    dp1 * p2 + dn1 * n2,
                    dn1 * p2 - dp1 * n2,
                )
                by_w[o13 + c], by_w[o14 + c] = (
                    dp2 * p1 + dn2 * n1,
                    dn2 * p1 - dp2 * n1,
                )
                by_w[o15 + c], by_w[o16 + c] = (
                    dp2 * p2 + dn2 * n2,
                    dn2 * p2 - dp2 * n2,
                )
                by_w[o17 + c], by_w[o18 + c] = (
                    dpp * pp + dnn * nn,
                    dnn * pp - dpp * nn,
                )
                by_w[o19 + c], by_w[o20 + c], by_w[o21 + c] = (
                    pull * z0,
                    pull * z1,
                    pull * z2,
                )
            for c in range(channels):
                s, pull = dots[c], pulls[c]
                dz0, dn1, dz1 = (
                    s * slopes[c],
                    s * slopes[o1 + c],
                    s * slopes[o2 + c],
                )
                dp1, dnn, dn2 = (
                    s * slopes[o3 + c],
                    s * slopes[o4 + c],
                    s * slopes[o5 + c],
                )
                dz2, dp2, dpp = (
                    s * slopes[o6 + c],
                    s * slopes[o7 + c],
                    s * slopes[o8 + c],
                )
                rows[c] = w[c] * dz0 + w[o3 + c] * dz1 + w[o6 + c] * dz2 + w[o19 + c] * pull
                rows[o2 + c] = (
                    w[o1 + c] * dz0 + w[o4 + c] * dz1 + w[o7 + c] * dz2 + w[o20 + c] * pull
                )
                rows[o6 + c] = (
                    w[o2 + c] * dz0 + w[o5 + c] * dz1 + w[o8 + c] * dz2 + w[o21 + c] * pull
                )
                rows[o3 + c] = (
                    w[o9 + c] * dp1 + w[o10 + c] * dn1 + w[o13 + c] * dp2 + w[o14 + c] * dn2
                )
                rows[o1 + c] = (
                    w[o9 + c] * dn1 - w[o10 + c] * dp1 + w[o13 + c] * dn2 - w[o14 + c] * dp2
                )
                rows[o7 + c] = (
                    w[o11 + c] * dp1 + w[o12 + c] * dn1 + w[o15 + c] * dp2 + w[o16 + c] * dn2
                )
                rows[o5 + c] = (
                    w[o11 + c] * dn1 - w[o12 + c] * dp1 + w[o15 + c] * dn2 - w[o16 + c] * dp2
                )
                rows[o8 + c] = w[o17 + c] * dpp + w[o18 + c] * dnn
                rows[o4 + c] = w[o17 + c] * dnn - w[o18 + c] * dpp
            out = by_features[j]
            for c in range(channels):
                n1, z1, p1, nn = (
                    rows[o1 + c],
                    rows[o2 + c],
                    rows[o3 + c],
                    rows[o4 + c],
                )
                n2, z2, p2, pp = (
                    rows[o5 + c],
                    rows[o6 + c],
                    rows[o7 + c],
                    rows[o8 + c],
                )
                out[c] += rows[c]
                out[o1 + c] += t1 * n1 + t4 * z1 + t7 * p1
                out[o2 + c] += t2 * n1 + t5 * z1 + t8 * p1
                out[o3 + c] += t3 * n1 + t6 * z1 + t9 * p1
                out[o4 + c] += t10 * nn + t15 * n2 + t20 * z2 + t25 * p2 + t30 * pp
                out[o5 + c] += t11 * nn + t16 * n2 + t21 * z2 + t26 * p2 + t31 * pp
                out[o6 + c] += t12 * nn + t17 * n2 + t22 * z2 + t27 * p2 + t32 * pp
                out[o7 + c] += t13 * nn + t18 * n2 + t23 * z2 + t28 * p2 + t33 * pp
                out[o8 + c] += t14 * nn + t19 * n2 + t24 * z2 + t29 * p2 + t34 * pp
            for b in range(functions):
                for k in range(size):
                    by_weights[b, k] += g[b] * by_w[k]

    return DepthwiseKernels(there, back)

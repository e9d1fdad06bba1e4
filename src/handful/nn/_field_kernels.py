"""Compiled loops over the edges of a tensor field: basis functions, and sums over neighbours.

The basis functions of an edge, g_b(|u|) c(|u|) Y_h(u) with u the offset in units of the radius, are
computed where they are used and never stored. How many there are is a constant to the compiler.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple, no_type_check

import numpy as np
import torch

from handful._compiled import compiled, for_sizes
from handful.geometry import spherical_harmonics
from handful.nn._layout import component_count


class FieldKernels(NamedTuple):
    """Kernels of a number of radial functions and a highest degree of harmonics.

    `reach` is the radius in metres. What kernels compute is added to their last arguments.

    Attributes:
        outer: (positions, points, target, source, reach, features, sums, weights): for each edge
            sums[target] += basis ⊗ features[source] and weights[target] += cut-off. Fast for edges
            that are sorted by target.
        outer_back: (positions, points, target, source, reach, features, by_sums, by_weights,
            learning, moving, by_features, by_positions): derivatives of a loss by features, if
            `learning`, and by positions, if `moving`, given those by sums and weights.
        product: (positions, points, target, source, reach, matrices, sums, weights): for each edge
            sums[target] += basis @ matrices[source]. Fast for edges that are sorted by source.
        product_back: The way back of `product`, with arguments like those of `outer_back`, for
            edges that are sorted by source. It writes the derivatives by matrices and adds nothing
            to what stood there.
    """

    outer: Any
    outer_back: Any
    product: Any
    product_back: Any


@for_sizes
@no_type_check
def field_kernels(radial: int, max_harmonic: int, width: int) -> FieldKernels:
    """Kernels for features, or for columns of matrices, of a width; 0 for any."""
    harmonics = component_count(max_harmonic)
    basis_size = radial * harmonics
    scale = np.array([math.comb(radial - 1, b) * math.sqrt(radial) for b in range(radial)])
    recursion = _recursion(max_harmonic)

    @compiled
    def outer(positions, points, target, source, reach, features, sums, weights):
        columns = width or features.shape[1]
        basis = np.empty(basis_size, features.dtype)
        for e in range(len(target)):
            i, j = target[e], source[e]
            weights[i] += _functions(
                (positions[i, 0] - points[j, 0]) / reach,
                (positions[i, 1] - points[j, 1]) / reach,
                (positions[i, 2] - points[j, 2]) / reach,
                scale,
                recursion,
                basis,
            )
            for b in range(basis_size):
                value = basis[b]
                for c in range(columns):
                    sums[i, b, c] += value * features[j, c]

    @compiled
    def outer_back(
        ladder, steps, positions, points, target, source, reach, features, by_sums, by_weights,
        learning, moving, by_features, by_positions,
    ):  # fmt: skip
        columns = width or features.shape[1]
        basis = np.empty(basis_size, features.dtype)
        by_basis = np.empty(basis_size, features.dtype)
        scratch = np.empty((2, harmonics), features.dtype)
        for e in range(len(target)):
            i, j = target[e], source[e]
            x = (positions[i, 0] - points[j, 0]) / reach
            y = (positions[i, 1] - points[j, 1]) / reach
            z = (positions[i, 2] - points[j, 2]) / reach
            _functions(x, y, z, scale, recursion, basis)
            if learning:
                for b in range(basis_size):
                    value = basis[b]
                    for c in range(columns):
                        by_features[j, c] += value * by_sums[i, b, c]
            if moving:
                for b in range(basis_size):
                    total = by_sums[i, b, 0] * features[j, 0]
                    for c in range(1, columns):
                        total += by_sums[i, b, c] * features[j, c]
                    by_basis[b] = total
                dx, dy, dz = _pulled(
                    x, y, z, scale, recursion, ladder, steps, by_basis, by_weights[i], scratch
                )
                by_positions[i, 0] += dx / reach
                by_positions[i, 1] += dy / reach
                by_positions[i, 2] += dz / reach

    @compiled
    def product(positions, points, target, source, reach, matrices, sums, weights):
        columns = width or matrices.shape[2]
        basis = np.empty(basis_size, matrices.dtype)
        for e in range(len(target)):
            i, j = target[e], source[e]
            weights[i] += _functions(
                (positions[i, 0] - points[j, 0]) / reach,
                (positions[i, 1] - points[j, 1]) / reach,
                (positions[i, 2] - points[j, 2]) / reach,
                scale,
                recursion,
                basis,
            )
            for h in range(harmonics):
                for d in range(columns):
                    total = basis[h] * matrices[j, h, d]
                    for b in range(1, radial):
                        total += basis[b * harmonics + h] * matrices[j, b * harmonics + h, d]
                    sums[i, d] += total

    @compiled
    def product_back(
        ladder, steps, positions, points, target, source, reach, matrices, by_sums, by_weights,
        learning, moving, by_matrices, by_positions,
    ):  # fmt: skip
        columns = width or matrices.shape[2]
        basis = np.empty(basis_size, matrices.dtype)
        by_basis = np.empty(basis_size, matrices.dtype)
        scratch = np.empty((2, harmonics), matrices.dtype)
        fresh = 0  # rows from this one on are not yet set to zero
        for e in range(len(target)):
            i, j = target[e], source[e]
            x = (positions[i, 0] - points[j, 0]) / reach
            y = (positions[i, 1] - points[j, 1]) / reach
            z = (positions[i, 2] - points[j, 2]) / reach
            _functions(x, y, z, scale, recursion, basis)
            if learning:
                while fresh <= j:
                    by_matrices[fresh] = 0.0
                    fresh += 1
                for b in range(basis_size):
                    value = basis[b]
                    for d in range(columns):
                        by_matrices[j, b, d] += value * by_sums[i, d]
            if moving:
                for b in range(basis_size):
                    total = matrices[j, b, 0] * by_sums[i, 0]
                    for d in range(1, columns):
                        total += matrices[j, b, d] * by_sums[i, d]
                    by_basis[b] = total
                dx, dy, dz = _pulled(
                    x, y, z, scale, recursion, ladder, steps, by_basis, by_weights[i], scratch
                )
                by_positions[i, 0] += dx / reach
                by_positions[i, 1] += dy / reach
                by_positions[i, 2] += dz / reach
        if learning:
            by_matrices[fresh:] = 0.0

    # Arguments, not constants: the same arrays in another process need not be the same to numba,
    # which would compile the kernels anew.
    slopes = _ladder(max_harmonic)
    return FieldKernels(
        outer, partial(outer_back, *slopes), product, partial(product_back, *slopes)
    )


@compiled
@no_type_check
def _functions(x, y, z, scale, recursion, basis):
    """Basis functions at an offset in units of the radius; returns the cut-off."""
    square = x * x + y * y + z * z
    if square >= 1.0:
        basis[:] = 0.0
        return 0.0 * square
    length = math.sqrt(square)
    cutoff = 1.0 - length * square * (10.0 - 15.0 * length + 6.0 * square)
    radial = len(scale)
    harmonics = len(basis) // radial
    angular = basis[:harmonics]
    _harmonics(x, y, z, square, recursion, angular)
    for b in range(radial - 1, -1, -1):
        g = cutoff * scale[b] * _power(square, b) * _power(1.0 - square, radial - 1 - b)
        for h in range(harmonics):
            basis[b * harmonics + h] = g * angular[h]
    return cutoff


@compiled
@no_type_check
def _pulled(x, y, z, scale, recursion, ladder, steps, by_basis, by_cutoff, scratch):
    """The derivative by the offset, given those by the basis functions and the cut-off."""
    square = x * x + y * y + z * z
    if square >= 1.0:
        return 0.0 * x, 0.0 * x, 0.0 * x
    radial = len(scale)
    harmonics = len(by_basis) // radial
    angular, by_angular = scratch[0], scratch[1]
    by_angular[:] = 0.0
    length, rest = math.sqrt(square), 1.0 - square
    cutoff = 1.0 - length * square * (10.0 - 15.0 * length + 6.0 * square)
    # d cutoff / d offset is this times the offset: d cutoff / d length = -30 l² (1 - l)².
    cutoff_slope = -30.0 * length * (1.0 - length) ** 2
    _harmonics(x, y, z, square, recursion, angular)
    along = by_cutoff * cutoff_slope
    for b in range(radial):
        up, down = _power(square, b), _power(rest, radial - 1 - b)
        g = scale[b] * up * down
        slope = 0.0
        if b > 0:
            slope += b * _power(square, b - 1) * down
        if b < radial - 1:
            slope -= (radial - 1 - b) * up * _power(rest, radial - 2 - b)
        dot = 0.0
        for h in range(harmonics):
            pull = by_basis[b * harmonics + h]
            dot += pull * angular[h]
            by_angular[h] += pull * g * cutoff
        # g is a function of the square of the length: d g / d offset = 2 g' offset.
        along += dot * (2.0 * scale[b] * slope * cutoff + g * cutoff_slope)
    dx, dy, dz = along * x, along * y, along * z
    for k in range(len(ladder)):
        pull = by_angular[ladder[k, 0]] * angular[ladder[k, 1]]
        dx += pull * steps[k, 0]
        dy += pull * steps[k, 1]
        dz += pull * steps[k, 2]
    return dx, dy, dz


@compiled
@no_type_check
def _harmonics(x, y, z, square, recursion, out):
    """Solid harmonics up to a degree, as `geometry.solid_harmonics` has them."""
    max_degree = len(recursion) - 1
    cosine, sine = 1.0 + 0.0 * x, 0.0 * x
    for order in range(max_degree + 1):
        if order > 0:
            cosine, sine = cosine * z - sine * x, sine * z + cosine * x
        old, older = recursion[order, order, 0] + 0.0 * x, 0.0 * x
        for degree in range(order, max_degree + 1):
            if degree > order:
                old, older = (
                    y * old * recursion[degree, order, 0]
                    - older * square * recursion[degree, order, 1],
                    old,
                )
            middle = degree * degree + degree
            out[middle + order] = old * cosine
            if order > 0:
                out[middle - order] = old * sine


@compiled
@no_type_check
def _power(base, exponent):
    """A small whole power."""
    value = 1.0
    for _ in range(exponent):
        value *= base
    return value


def _recursion(max_degree: int) -> np.ndarray:
    """Coefficients of the recursion of `_harmonics` by degree and order."""
    table = np.zeros((max_degree + 1, max_degree + 1, 2))
    table[0, 0, 0] = 1.0
    for degree in range(1, max_degree + 1):
        sectoral = math.sqrt(3.0 if degree == 1 else (2 * degree + 1) / (2 * degree))
        table[degree, degree, 0] = table[degree - 1, degree - 1, 0] * sectoral
        for order in range(degree):
            width = math.sqrt((degree * degree - order * order) / (2 * degree + 1))
            table[degree, order, 0] = math.sqrt(2 * degree - 1) / width
            if order < degree - 1:
                gap = (degree - 1) ** 2 - order * order
                table[degree, order, 1] = math.sqrt(gap / (2 * degree - 3)) / width
    return table


def _ladder(max_degree: int) -> tuple[np.ndarray, np.ndarray]:
    """The derivatives of solid harmonics as sums of solid harmonics of one degree less.

    Returns:
        Pairs (h, other) of harmonics [pairs, 2], and how much of `other` the derivatives of h by x,
        y and z hold [pairs, 3]. They are solved for at some points, which is exact to rounding.
    """
    count = component_count(max_degree)
    generator = torch.Generator().manual_seed(0)
    with torch.inference_mode(False), torch.enable_grad():
        where = torch.randn(4 * count, 3, generator=generator, dtype=torch.float64)
        where.requires_grad_()
        values = spherical_harmonics(where, max_degree, normalize=False)
        slopes = [torch.zeros_like(where)]
        for h in range(1, count):
            slopes += torch.autograd.grad(values[:, h].sum(), where, retain_graph=True)
    by_axis = torch.stack(slopes, dim=1).flatten(1)
    solved = torch.linalg.lstsq(values.detach(), by_axis).solution
    table = solved.unflatten(1, (count, 3)).transpose(0, 1).numpy()
    pairs = np.argwhere(np.abs(table).max(axis=2) > 1e-9)
    return pairs.reshape(-1, 2), table[pairs[:, 0], pairs[:, 1]].reshape(-1, 3)

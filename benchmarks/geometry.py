"""Ratios of a reference's time over ours, on the same work in the same run, on one thread.

Run with `python benchmarks/geometry.py`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import torch
from e3nn import o3

from handful import geometry as g

ROTATIONS = 100_000
MAX_DEGREE = 3
EPSILON = 1e-3


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Shortest of several runs after one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def report(name: str, reference: Callable[[], object], ours: Callable[[], object]) -> None:
    theirs_s, ours_s = seconds(reference, 3), seconds(ours, 10)
    print(f"{name:<44} {theirs_s / ours_s:8.1f} x   ({theirs_s:.3f} s over {ours_s:.4f} s)")


def wigner(dtype: torch.dtype) -> None:
    torch.set_default_dtype(dtype)  # e3nn builds its constants in the default type
    generator = torch.Generator().manual_seed(0)
    rotation = g.haar_rotations(ROTATIONS, generator=generator, dtype=dtype)
    name = str(dtype).removeprefix("torch.")
    report(
        f"Wigner l<=3, {ROTATIONS} rotations, {name}",
        lambda: [o3.Irrep(degree, 1).D_from_matrix(rotation) for degree in range(MAX_DEGREE + 1)],
        lambda: g.wigner_d_blocks(rotation, MAX_DEGREE),
    )
    vectors = rotation[:, 0].contiguous()
    report(
        f"spherical harmonics l<=3, {ROTATIONS}, {name}",
        lambda: o3.spherical_harmonics(list(range(MAX_DEGREE + 1)), vectors, True, "component"),
        lambda: g.spherical_harmonics(vectors, MAX_DEGREE),
    )
    torch.set_default_dtype(torch.float32)


def naive_lattice(count: int) -> torch.Tensor:
    """The spiral one point at a time."""
    quats = []
    for index in range(count):
        s = index + 0.5
        r, rho = math.sqrt(s / count), math.sqrt(1.0 - s / count)
        alpha, beta = 2 * math.pi * s / math.sqrt(2.0), 2 * math.pi * s / 1.533751168755204288
        quats.append(
            [r * math.sin(alpha), r * math.cos(alpha), rho * math.sin(beta), rho * math.cos(beta)]
        )
    return g.quat_to_rotation(torch.tensor(quats))


def naive_igso3(count: int, epsilon: float) -> torch.Tensor:
    """The paper's recipe at every call: the series on a grid, summed and inverted."""
    omega = np.linspace(1e-9, math.pi, 8192)
    degree = np.arange(int(8.0 / math.sqrt(epsilon)))[:, None]
    terms = (2 * degree + 1) * np.exp(-epsilon * degree * (degree + 1))
    density = (terms * np.sin((2 * degree + 1) * omega / 2)).sum(0) / np.sin(omega / 2)
    cdf = np.cumsum(density * (1.0 - np.cos(omega)))
    angle = np.interp(np.random.default_rng(0).random(count), cdf / cdf[-1], omega)
    axis = torch.randn(count, 3, dtype=torch.float64)
    rotvec = axis / axis.norm(dim=-1, keepdim=True) * torch.from_numpy(angle)[:, None]
    return torch.linalg.matrix_exp(g.skew(rotvec)).float()


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'work':<44} {'ratio':>10}   (reference over ours)")
    wigner(torch.float32)
    wigner(torch.float64)
    report(
        f"lattice of {ROTATIONS} rotations, over a loop",
        lambda: naive_lattice(ROTATIONS),
        lambda: g.rotation_lattice(ROTATIONS),
    )
    normal, generator = g.IsotropicGaussianSO3(EPSILON), torch.Generator().manual_seed(0)
    for count in (1000, ROTATIONS):
        report(
            f"IG_SO(3) samples, {count}, over the series",
            lambda count=count: naive_igso3(count, EPSILON),
            lambda count=count: normal.sample(count, generator=generator),
        )


if __name__ == "__main__":
    main()

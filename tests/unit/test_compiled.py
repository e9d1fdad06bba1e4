"""Compiled kernels work wherever they are, and are compiled once."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from handful._compiled import MOST_SIZES, compiled, for_sizes


def doubled(values):
    """Doubles an array in place."""
    for k in range(len(values)):
        values[k] *= 2.0


def used(kernel) -> float:
    values = np.array([1.5, 2.0])
    kernel(values)
    return float(values.sum())


@pytest.mark.filterwarnings("error")
def test_a_kernel_works_where_nothing_can_be_kept(monkeypatch):
    def nowhere(self) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(Dispatcher, "enable_caching", nowhere)
    assert used(compiled(doubled)) == 7.0


def test_a_kernel_works_on_a_full_disk(monkeypatch):
    tried = []

    def full(self, *overload) -> None:
        tried.append(overload)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.Cache.save_overload", full)
    monkeypatch.setattr("numba.core.caching.Cache.load_overload", lambda self, *_: None)
    assert used(compiled(doubled)) == 7.0
    assert tried


def test_a_nan_and_an_infinity_stay():
    values = np.array([np.nan, np.inf, 1.0])
    compiled(doubled)(values)
    assert np.isnan(values[0])
    assert values[1] == np.inf


def test_the_first_sizes_have_kernels_of_their_own_and_any_more_share_one():
    made = []
    kernels = for_sizes(lambda *numbers: made.append(numbers) or numbers)
    for size in [*range(1, 20), *range(1, 20)]:
        assert kernels(5, size) == (5, size if size <= MOST_SIZES else 0)
    assert made == [*((5, size) for size in range(1, MOST_SIZES + 1)), (5, 0)]


KERNELS = """
import numpy as np, torch
from handful.nn import DepthwiseTransformerLayer, EdgeGeometry, FieldEdges, TensorFieldLayer, Types
from handful.nn._depthwise_kernels import depthwise_kernels
from handful.nn._field_kernels import field_kernels
points, index = torch.rand(5, 3), torch.arange(5)
edges = EdgeGeometry.between(index, index.roll(1), points, points, 2.0)
features = torch.randn(5, 9, 4, requires_grad=True)
DepthwiseTransformerLayer(2, 2, 4, heads=2)(features, edges).sum().backward()
layer, near = TensorFieldLayer(2, 4, Types((2,))), FieldEdges(index, index, points, points, 2.0)
layer.at_few(features, layer.kernel(), near).sum().backward()
layer(layer.point_matrices(features, layer.kernel()), near).sum().backward()
kernels = [*depthwise_kernels(4), *field_kernels(5, 2, 36)[:2], *field_kernels(5, 2, 2)[2:]]
stats = [getattr(kernel, 'func', kernel).stats for kernel in kernels]
print(sum(len(each.cache_hits) for each in stats), sum(len(each.cache_misses) for each in stats))
"""


@pytest.mark.slow(seconds=15)
def test_a_second_process_does_not_compile_again(tmp_path):
    said = [
        subprocess.run(
            [sys.executable, "-c", KERNELS],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout.split()
        for _ in range(2)
    ]
    assert said == [["0", "7"], ["7", "0"]]

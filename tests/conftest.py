"""Shared test set-up: shapes and types are checked in every call, one thread per process."""

# ruff: noqa: E402  (the checker must be installed before anything of handful is imported)

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import typechecker

typechecker.install("handful")

import pytest
import torch
from hypothesis import HealthCheck, settings

from order import long_first

torch.set_num_threads(1)
settings.register_profile(
    "handful",
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("handful")

SLOW = 10.0
"""Seconds that a test marked `slow` takes if the mark does not say."""


@pytest.hookimpl(trylast=True)  # when options like -k have left tests out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests come first when several processes share the tests (`order.py`)."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = long_first(items, [_seconds(item) for item in items], processes)


def _seconds(item: pytest.Item) -> float:
    mark = item.get_closest_marker("slow")
    return 0.0 if mark is None else float(mark.kwargs.get("seconds", SLOW))


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """Every law holds in single and in double precision."""
    return request.param

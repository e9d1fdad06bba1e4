"""A clock for tests of time budgets: time passes only where a test says how much work took."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch


class Clock:
    """Takes the place of the module `time` in the modules under test."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def install(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        for module in modules:
            monkeypatch.setattr(module, "time", self)

    def slow(
        self, field: Callable[[torch.Tensor], torch.Tensor], seconds: Callable[[int], float]
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        """A field that takes `seconds(positions)` for so many positions."""

        def slow_field(positions: torch.Tensor) -> torch.Tensor:
            self.now += seconds(len(positions))
            return field(positions)

        return slow_field

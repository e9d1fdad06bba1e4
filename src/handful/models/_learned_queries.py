"""Query points of a model for an empty gripper: parameters, not functions of a cloud."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from handful._checks import shown
from handful.errors import OptionError
from handful.models._energy import QueryPoints
from handful.nn import Types

MAX_QUERIES = 1_000
MAX_REACH = 10.0
"""Metres: no query point is farther from the gripper's origin."""


@dataclass(frozen=True)
class LearnedQueryConfig:
    """Where the query points start.

    Attributes:
        positions: x, y and z of each in the gripper frame, metres. One stands at the gripper's
            contact point.
        learn_positions: Whether training may move them.
    """

    positions: tuple[tuple[float, ...], ...]
    learn_positions: bool = False

    def __post_init__(self) -> None:
        lengths = {len(position) for position in self.positions}
        if lengths != {3} or not np.isfinite(self.positions).all():
            raise OptionError(
                f"query positions are {shown(self.positions)}: need one or more x, y, z in metres."
            )
        if len(self.positions) > MAX_QUERIES or np.abs(self.positions).max() > MAX_REACH:
            raise OptionError(
                f"{len(self.positions)} query positions, up to {np.abs(self.positions).max():g} m "
                f"from the gripper: need at most {MAX_QUERIES}, within {MAX_REACH:g} m."
            )


class LearnedQueries(nn.Module):
    """Query points, weights and descriptors as parameters (eq. energy_pick).

    Args:
        config: Where they start.
        types: What the descriptors hold.
    """

    def __init__(self, config: LearnedQueryConfig, types: Types) -> None:
        super().__init__()
        positions = torch.tensor(config.positions)
        self._positions = nn.Parameter(positions, requires_grad=config.learn_positions)
        self._logits = nn.Parameter(torch.zeros(len(positions)))
        self._descriptors = nn.Parameter(0.3 * torch.randn(len(positions), types.dim))

    def forward(self) -> QueryPoints:
        """The query points; their weights add up to one."""
        return QueryPoints(self._positions, self._logits.softmax(0), self._descriptors)

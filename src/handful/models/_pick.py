"""The pick model: where to grasp in a scene (appendix on the pick model)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from handful.clouds import PointCloud
from handful.errors import OptionError
from handful.models._energy import MatchEnergy, check_energy_options
from handful.models._field import DescriptorField, EncoderConfig, Field
from handful.models._queries import PickQueries
from handful.nn import Types


@dataclass(frozen=True)
class PickConfig:
    """What a pick model is built from.

    Attributes:
        encoder: Of the key field.
        descriptor: Channels of each type from 0.
        query_positions: Where the query points start, x, y and z one after another, metres; the
            gripper's tip is near (0, 0, 0.15).
        learn_positions: Whether training may move the query points.
        norm: Of the energy.
        temperature: Of the energy.
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    descriptor: tuple[int, ...] = (16, 8, 4, 4)
    query_positions: tuple[tuple[float, ...], ...] = ((0.0, 0.0, 0.15),)
    learn_positions: bool = True
    norm: str = "squared"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        Types(self.descriptor)
        check_energy_options(self.norm, self.temperature)
        lengths = {len(position) for position in self.query_positions}
        if lengths != {3} or not np.isfinite(self.query_positions).all():
            raise OptionError(
                f"query positions are {self.query_positions}: need one or more x, y, z in metres."
            )


class PickModel(nn.Module):
    """E(T|X) = sum_i w_i |phi(T q_i | X) - D(R) psi_i|^2 (eq. energy_pick).

    Args:
        config: What it is built from.
    """

    kind = "pick"

    def __init__(self, config: PickConfig) -> None:
        super().__init__()
        self.config = config
        types = Types(config.descriptor)
        self.key_field = DescriptorField(config.encoder, types)
        positions = torch.tensor(config.query_positions)
        self.queries = PickQueries(positions, types, config.learn_positions)

    def forward(self, scene: PointCloud) -> MatchEnergy:
        """The energy of gripper poses in a scene; the scene is encoded once, here."""
        return self.energy(self.key_field(scene))

    def energy(self, key: Field) -> MatchEnergy:
        """The energy of gripper poses in a scene whose key field is known."""
        return MatchEnergy(
            key,
            self.queries(),
            self.key_field.types,
            self.config.norm,
            self.config.temperature,
        )

"""The place model: where to bring what is held (eq. energy_point)."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from handful.clouds import PointCloud
from handful.errors import OptionError
from handful.models._energy import MatchEnergy, QueryPoints, check_energy_options
from handful.models._field import DescriptorField, EncoderConfig, Field
from handful.models._queries import GraspQueries, GraspQueryConfig
from handful.nn import Types


@dataclass(frozen=True)
class PlaceConfig:
    """What a place model is built from.

    Attributes:
        scene_encoder: Of the key field.
        grasp_encoder: Of the query field and the query weights.
        descriptor: Channels of each type from 0.
        queries: How query points are drawn.
        strongest: How many query points are kept at inference; the paper keeps three.
        norm: Of the energy.
        temperature: Of the energy.
    """

    scene_encoder: EncoderConfig = field(default_factory=EncoderConfig)
    grasp_encoder: EncoderConfig = field(default_factory=EncoderConfig)
    descriptor: tuple[int, ...] = (16, 8, 4, 4)
    queries: GraspQueryConfig = field(default_factory=GraspQueryConfig)
    strongest: int = 3
    norm: str = "squared"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        Types(self.descriptor)
        check_energy_options(self.norm, self.temperature)
        if self.strongest < 1:
            raise OptionError(f"strongest is {self.strongest}: keep one query point or more.")


class PlaceModel(nn.Module):
    """E(T|X,Y) = sum_i w(q_i|Y) |phi(T q_i | X) - D(R) psi(q_i | Y)|^2 (eq. energy_point).

    Args:
        config: What it is built from.
    """

    kind = "place"

    def __init__(self, config: PlaceConfig) -> None:
        super().__init__()
        self.config = config
        types = Types(config.descriptor)
        self.key_field = DescriptorField(config.scene_encoder, types)
        self.queries = GraspQueries(config.grasp_encoder, types, config.queries)

    def forward(self, scene: PointCloud, grasp: PointCloud) -> MatchEnergy:
        """The energy of gripper poses; in training with all query points, else the strongest."""
        queries = self.queries(grasp)
        if not self.training:
            queries = queries.strongest(self.config.strongest)
        return self.energy(self.key_field(scene), queries)

    def energy(self, key: Field, queries: QueryPoints) -> MatchEnergy:
        """The energy of gripper poses for a key field and query points that are known."""
        return MatchEnergy(
            key,
            queries,
            self.key_field.types,
            self.config.norm,
            self.config.temperature,
        )

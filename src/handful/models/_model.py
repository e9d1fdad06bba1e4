"""The model: a key field of the scene, compared with query points from one of two sources."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from handful.clouds import PointCloud
from handful.errors import OptionError
from handful.models._energy import MatchEnergy, QueryPoints, check_energy_options
from handful.models._field import DescriptorField, EncoderConfig, Field
from handful.models._grasp_queries import GraspQueries, GraspQueryConfig
from handful.models._learned_queries import LearnedQueries, LearnedQueryConfig
from handful.models._verifier import Verifier, VerifierConfig
from handful.nn import Types

LARGEST_DESCRIPTOR = 2_048
"""Numbers of a descriptor; the usual one has 88."""

LARGEST_VERIFIER = 5_000_000
"""Weights of a verifier's first layer; the usual one has 0.2 million."""


@dataclass(frozen=True)
class ModelConfig:
    """What a model is built from. Exactly one of `learned` and `grasp` is given.

    Attributes:
        encoder: Of the key field.
        descriptor: Channels of each type from 0.
        learned: Query points are parameters: for an empty gripper (the paper's pick model).
        grasp: Query points are drawn from the grasp cloud: for a gripper that holds something (the
            paper's place model).
        norm: Of the energy.
        temperature: Of the energy.
        verifier: What tells right poses from wrong ones, of a model for an empty gripper; None if
            energies alone tell, as in models of before.
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    descriptor: tuple[int, ...] = (16, 8, 4, 4)
    learned: LearnedQueryConfig | None = None
    grasp: GraspQueryConfig | None = None
    norm: str = "squared"
    temperature: float = 1.0
    verifier: VerifierConfig | None = None

    def __post_init__(self) -> None:
        if Types(self.descriptor).dim > LARGEST_DESCRIPTOR:
            raise OptionError(
                f"descriptor channels are {self.descriptor}, {Types(self.descriptor).dim} numbers: "
                f"need at most {LARGEST_DESCRIPTOR}."
            )
        check_energy_options(self.norm, self.temperature)
        if (self.learned is None) == (self.grasp is None):
            raise OptionError("a model has query points of one source: give `learned` or `grasp`.")
        if self.verifier is not None:
            self._check_verifier(self.verifier)

    def _check_verifier(self, verifier: VerifierConfig) -> None:
        if self.learned is None:
            raise OptionError("a verifier is for an empty gripper: give `learned`, or no verifier.")
        size = len(verifier.probes) * Types(self.descriptor).dim * verifier.hidden
        if size > LARGEST_VERIFIER:
            raise OptionError(
                f"verifier with {len(verifier.probes)} probes and {verifier.hidden} hidden numbers "
                f"has {size:,} weights: need at most {LARGEST_VERIFIER:,}."
            )


class EdfModel(nn.Module):
    """E(T|X,Y) = sum_i w_i |phi(T q_i | X) - D(R) psi_i|^2 with weights that add up to one.

    Where the gripper holds something, q_i, w_i and psi_i are functions of the grasp cloud Y (eq.
    energy_point). Where it is empty they are parameters (eq. energy_pick).

    Args:
        config: What it is built from.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        types = Types(config.descriptor)
        self.key_field = DescriptorField(config.encoder, types)
        self.queries: LearnedQueries | GraspQueries
        if config.learned is not None:
            self.queries = LearnedQueries(config.learned, types)
        elif config.grasp is not None:
            self.queries = GraspQueries(config.grasp, types)
        self.verifier = None if config.verifier is None else Verifier(config.verifier, types)

    @property
    def holding(self) -> bool:
        """Whether the query points come from a grasp cloud."""
        return self.config.grasp is not None

    def query_points(self, grasp: PointCloud | None) -> QueryPoints:
        """The query points that energies are computed with in use.

        Raises:
            OptionError: A grasp cloud is missing, or there is one too many.
        """
        if isinstance(self.queries, LearnedQueries):
            if grasp is not None:
                raise OptionError("this model is for an empty gripper: give no grasp cloud.")
            return self.queries()
        if grasp is None:
            raise OptionError("this model needs a cloud of what is held: give the grasp cloud.")
        return self.queries(grasp)

    def forward(self, scene: PointCloud, grasp: PointCloud | None = None) -> MatchEnergy:
        """The energy of gripper poses; the clouds are encoded once, here."""
        return self.energy(self.key_field(scene), self.query_points(grasp))

    def energy(self, key: Field, queries: QueryPoints) -> MatchEnergy:
        """The energy of gripper poses for a key field and query points that are known."""
        return MatchEnergy(
            key, queries, self.key_field.types, self.config.norm, self.config.temperature
        )

"""The words of the protocol: setups, purposes, variants, and the random numbers of an episode."""

from __future__ import annotations

from enum import Enum

import numpy as np

from handful.errors import OptionError, unknown_name_message


class Setup(Enum):
    """How an episode differs from the demonstrations (the paper's appendix H).

    `trained`: nothing new. `instances`: one of ten unseen shapes. `poses`: lying, at any height.
    `distractors`: four of them (two where there are two pairs of object and target). `all`: all
    three at once, half lying and half standing, any height.
    """

    TRAINED = "trained"
    INSTANCES = "instances"
    POSES = "poses"
    DISTRACTORS = "distractors"
    ALL = "all"

    @property
    def unseen_instances(self) -> bool:
        """Whether the object has an unseen shape."""
        return self in (Setup.INSTANCES, Setup.ALL)

    @property
    def distracting(self) -> bool:
        """Whether distractors stand around."""
        return self in (Setup.DISTRACTORS, Setup.ALL)

    @classmethod
    def named(cls, name: str) -> Setup:
        """The setup of that name.

        Raises:
            OptionError: There is none.
        """
        try:
            return cls(name)
        except ValueError as error:
            valid = [setup.value for setup in cls]
            raise OptionError(unknown_name_message("setup", name, valid)) from error


class Purpose(Enum):
    """What an episode is for.

    Each purpose has its own stream of random numbers, so that no evaluation can ever repeat a
    demonstration, whatever the seeds.
    """

    DEMONSTRATION = 101
    EVALUATION = 202


class Variant(Enum):
    """How the oracle picks: anywhere on the rim, nearly always alike, or rim and handle."""

    DEFAULT = "default"
    LOWVAR = "lowvar"
    MIXED = "mixed"

    @classmethod
    def named(cls, name: str) -> Variant:
        """The variant of that name.

        Raises:
            OptionError: There is none.
        """
        try:
            return cls(name)
        except ValueError as error:
            valid = [variant.value for variant in cls]
            raise OptionError(unknown_name_message("variant", name, valid)) from error


def stream(purpose: Purpose, task: str, setup: Setup, seed: int) -> np.random.Generator:
    """The random numbers of one episode."""
    if seed < 0:
        raise OptionError(f"seed is {seed}: need 0 or more.")
    words = [purpose.value, *task.encode(), list(Setup).index(setup), seed]
    return np.random.default_rng(np.random.SeedSequence(words))

"""One object and the target that it goes to: what an oracle must know about both."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from handful.policy import Verdict
from handful.sim._model import Placed
from handful.sim._world import World
from handful.sim.objects import Pose, Thing, placed, random_color
from handful.sim.tasks._checks import MotionChecks
from handful.sim.tasks._types import Setup, Variant

_SUIT_TRIES = 600
"""Goals that are drawn for an object before it is refused."""


class PickAndPlace(ABC):
    """An object is picked and placed on its target; a task has one of these or more.

    All methods that take a world are about the pair in focus. Instances have no state.

    Attributes:
        kind: `mug`, `bowl` or `bottle`: what a user's mesh must be to serve as the object.
    """

    kind: str

    @abstractmethod
    def trained_things(self) -> Sequence[Thing]:
        """The objects of the demonstrations."""

    @abstractmethod
    def unseen_things(self) -> Sequence[Thing]:
        """Ten others."""

    @abstractmethod
    def draw_target(self, rng: np.random.Generator) -> Thing:
        """Hanger or tray."""

    @abstractmethod
    def with_other_target(self, seed: int) -> PickAndPlace:
        """With a hanger or tray of another shape; the same seed gives the same shape."""

    @abstractmethod
    def grasps(
        self, thing: Thing, rng: np.random.Generator, variant: Variant
    ) -> Sequence[Iterator[Pose]]:
        """Endless random T_item_contact, one iterator for each kind, in the order to try them."""

    @abstractmethod
    def goals(self, world: World, rng: np.random.Generator, variant: Variant) -> Iterator[Pose]:
        """Endless random T_scene_item of an object that is about to be released."""

    @abstractmethod
    def well_placed(self, world: World) -> Verdict:
        """What is asked of an object that the target holds, beyond being held."""

    def holds(self, world: World, T_scene_item: Pose) -> bool:
        """Whether the target surely keeps an object that is let go at a pose."""
        return True

    def draw_thing(
        self, setup: Setup, rng: np.random.Generator, things: Sequence[Thing] | None = None
    ) -> Thing:
        """The object of an episode: one of `things`, or one of the setup's own."""
        if things is not None:
            return things[int(rng.integers(len(things)))]
        if setup.unseen_instances:
            pool = self.unseen_things()
            return pool[int(rng.integers(len(pool)))].recolored(random_color(rng))
        pool = self.trained_things()
        return pool[int(rng.integers(len(pool)))]

    def suits(self, thing: Thing) -> Verdict:
        """Whether there is any pose in which the target could take the thing; no robot."""
        rng = np.random.default_rng(0)
        target = self.draw_target(rng)
        aside = placed((0.5, 0.5, 0.0))
        world = World([Placed(thing, aside)], [Placed(target, np.eye(4))])
        checks = MotionChecks(world)
        goals = itertools.islice(self.goals(world, rng, Variant.DEFAULT), _SUIT_TRIES)
        if any(checks.clear_goal(goal) for goal in goals):
            return Verdict(True)
        return Verdict(
            False,
            f"{thing.name}: it does not go on the {target.name}: none of {_SUIT_TRIES} poses was "
            "free of collisions there and on the way down.",
        )

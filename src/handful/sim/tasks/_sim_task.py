"""What a task of the simulated world is: pairs of object and target, and how an episode begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from handful._checks import MAX_DERIVED_SEED, check_seed
from handful.demos import Action, Gripper, Task, TaskStep
from handful.errors import OptionError
from handful.sim._errors import DivergedError, SimError
from handful.sim._hand import SIMULATED, check_hand
from handful.sim._rig import DEFAULT_RIG, CameraRig
from handful.sim._world import World
from handful.sim.objects import Thing
from handful.sim.tasks._episode import Episode
from handful.sim.tasks._layout import NO_ROOM, draw_layout, draw_lying
from handful.sim.tasks._oracle import RESET_TRIES, search_pick
from handful.sim.tasks._pick_and_place import PickAndPlace
from handful.sim.tasks._types import Purpose, Setup, Variant, stream

UNSTABLE = "the object did not come to rest as it was put"
NOT_KEPT = "a target did not keep its object in a rehearsal"
"""Why layouts are thrown away, with those of `_layout` and `_oracle`."""

_RESETS = 60
"""Layouts that are tried until one comes to rest as meant and can be solved."""
_REHEARSAL = 0.8
"""Seconds in which a placed object comes to rest."""


@dataclass(frozen=True)
class TaskPart:
    """One object of a task, and the two steps that take it to its target.

    Attributes:
        what: Object and target.
        pick: Name of the step that takes the object.
        place: Name of the step that brings it to its target.
    """

    what: PickAndPlace
    pick: str
    place: str


@dataclass(frozen=True)
class SimTask:
    """A task of the simulated world. It has no state: all that happens is in the `Episode`.

    Attributes:
        name: Of the task; part of the random seed of its episodes.
        description: One sentence for people.
        parts: In the order in which they are done.
    """

    name: str
    description: str
    parts: tuple[TaskPart, ...]

    @property
    def task(self) -> Task:
        """The steps in order."""
        return Task(
            tuple(
                TaskStep(name, action)
                for part in self.parts
                for name, action in ((part.pick, Action.PICK), (part.place, Action.PLACE))
            )
        )

    def pair_of(self, step: TaskStep) -> int:
        """The number of the pair of object and target that a step is about.

        Raises:
            DemoError: The task has no such step.
        """
        return self.task.names.index(self.task.step(step.name).name) // 2

    def with_other_target(self, seed: int) -> SimTask:
        """With hangers and trays of other shapes; the same seed gives the same shapes."""
        parts = tuple(replace(part, what=part.what.with_other_target(seed)) for part in self.parts)
        return replace(self, parts=parts)

    def reset(
        self,
        seed: int,
        setup: Setup = Setup.TRAINED,
        purpose: Purpose = Purpose.EVALUATION,
        things: Sequence[Thing] | Mapping[str, Sequence[Thing]] | None = None,
        rig: CameraRig = DEFAULT_RIG,
        fixed_carry: bool = False,
        gripper: Gripper = SIMULATED,
    ) -> Episode:
        """A new episode: things at rest, the robot at home, and at least one way to solve it.

        Args:
            seed: The same seed, setup, purpose and gripper give the same episode.
            setup: How it differs from the demonstrations.
            purpose: Demonstrations and evaluations never share random numbers.
            things: Use these objects instead of the task's own; by kind (`mug`, `bowl`,
                `bottle`) for tasks of several parts.
            rig: The depth cameras; scenes do not depend on them.
            fixed_carry: See `Episode`.
            gripper: The robot's hand.

        Raises:
            OptionError: The hand cannot be simulated, or things are not given by kind.
            SimError: No layout could be solved, for example because the objects do not suit.
        """
        check_hand(gripper)
        check_seed(seed, MAX_DERIVED_SEED)
        rng = stream(purpose, self.name, setup, seed)
        # Drawn once: what is thrown away below must not favour easy objects or poses.
        drawn: list[Thing] = []
        lying: list[bool] = []
        for part in self.parts:
            drawn.append(part.what.draw_thing(setup, rng, self._things_of(part, things)))
            lying.append(draw_lying(setup, rng))
        rejected: list[str] = []
        for _ in range(_RESETS):
            tried = self._try_reset(setup, rng, drawn, lying, gripper)
            if isinstance(tried, World):
                episode = Episode(self, setup, seed, tried, rng, rig, fixed_carry)
                reason = _solve_parts(episode)
                if not reason:
                    episode.rejected = tuple(rejected)
                    return episode
                tried = reason
            rejected.append(tried)
        often = max(set(rejected), key=rejected.count)
        names = ", ".join(repr(thing.name) for thing in drawn)
        raise SimError(
            f"task {self.name!r}, setup {setup.value!r}, seed {seed}, object {names}: none "
            f"of {_RESETS} layouts could be used ({rejected.count(often)} times because "
            f"{often}); try another object."
        )

    def _things_of(
        self, part: TaskPart, things: Sequence[Thing] | Mapping[str, Sequence[Thing]] | None
    ) -> Sequence[Thing] | None:
        if isinstance(things, Mapping):
            return things.get(part.what.kind)
        if things is not None and len(self.parts) > 1:
            kinds = ", ".join(part.what.kind for part in self.parts)
            raise OptionError(
                f"task {self.name!r} has several objects: give things by kind ({kinds})."
            )
        return things

    def _try_reset(
        self,
        setup: Setup,
        rng: np.random.Generator,
        things: Sequence[Thing],
        lying: Sequence[bool],
        gripper: Gripper,
    ) -> World | str:
        """A world with everything at rest, or why this layout is thrown away."""
        targets = [part.what.draw_target(rng) for part in self.parts]
        layout = draw_layout(things, targets, setup, lying, rng)
        if layout is None:
            return NO_ROOM
        world = World(layout.items, layout.targets, layout.supports, layout.distractors, gripper)
        try:
            world.calm(0.7 if any(lying) else 0.25)
        except DivergedError:
            return UNSTABLE
        for pair in range(len(self.parts)):
            world.focus(pair)
            if not layout.as_meant(pair, world.T_scene_item) or world.item_speed > 0.02:
                return UNSTABLE
        world.focus(0)
        world.data.qvel[:] = 0.0
        return world


def _solve_parts(episode: Episode) -> str:
    """Find a way for each part, those before it being done; why there is none, or nothing."""
    world = episode.world
    start = world.state
    for pair in range(len(episode.task.parts)):
        world.focus(pair)
        found = search_pick(episode, episode.rng, Variant.DEFAULT, RESET_TRIES)
        if isinstance(found, str):
            return found
        episode.known_picks[pair] = found
        if pair + 1 < len(episode.task.parts):
            rest = world.rehearse(episode.known_goals[pair], _REHEARSAL)
            if rest is None:
                return NOT_KEPT
            world.put_item(rest)
    if len(episode.task.parts) > 1:
        world.restore(start)
        world.focus(0)
    return ""

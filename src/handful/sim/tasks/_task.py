"""What a task is: its objects and target, how an episode begins, and an oracle that can do it."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from handful.sim._arm import OPENING
from handful.sim._cameras import NO_NOISE, DepthNoise
from handful.sim._errors import DivergedError, SimError
from handful.sim._world import Placed, World
from handful.sim.objects import Pose, Thing, placed, random_color
from handful.sim.tasks._episode import Episode
from handful.sim.tasks._layout import draw_layout, draw_lying
from handful.sim.tasks._types import Purpose, Setup, Variant, Verdict, stream

UNSTABLE = "the object did not come to rest as it was put"
NO_PICK = "no grasp was in reach and free"
NO_PLACE = "no grasp led to a place in reach and free"
"""Why layouts are thrown away."""

_RESETS = 60
"""Layouts that are tried until one comes to rest as meant and can be solved."""
_GRASP_TRIES, _RESET_TRIES = 150, 40
"""Grasps that the oracle draws when it acts, and when a reset asks whether there is one."""
_HOPELESS = 6
"""After so many good grasps from which nothing could be placed, the target is out of reach."""
_ALIKE_TRIES = 6
"""Grasps that are nearly alike are not worth more."""
_GOAL_DRAWS, _GOAL_TRIES = 100, 6
"""Goals that are drawn, and how many of those that the object fits into the robot tries."""
_PLACE_ROUNDS = 20
"""How often that is done before the oracle gives up with the object in its hand: it is cheap."""
_SUIT_TRIES = 600
"""Goals that are drawn for an object before it is refused."""


class Task(ABC):
    """One task of the protocol. Stateless: all that happens is in the `Episode`."""

    name: str
    description: str

    # --- what a task says about itself -----------------------------------------------------

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
    def with_other_target(self, seed: int) -> Task:
        """The same task with a hanger or tray of another shape; the same seed, the same shape."""

    @abstractmethod
    def grasps(
        self, thing: Thing, rng: np.random.Generator, variant: Variant
    ) -> Sequence[Iterator[Pose]]:
        """Endless random T_item_gripper, one iterator for each kind, in the order to try them."""

    @abstractmethod
    def goals(self, episode: Episode, rng: np.random.Generator, variant: Variant) -> Iterator[Pose]:
        """Endless random T_scene_item of an object that is about to be released."""

    @abstractmethod
    def well_placed(self, episode: Episode) -> Verdict:
        """What is asked of an object that the target holds, beyond being held."""

    def suits(self, thing: Thing) -> Verdict:
        """Whether there is any pose in which the target could take the thing; no robot."""
        rng = np.random.default_rng(0)
        target = self.draw_target(rng)
        aside = placed((0.5, 0.5, 0.0))
        world = World(Placed(thing, aside), Placed(target, np.eye(4)))
        episode = Episode(self, Setup.TRAINED, 0, world, rng)
        goals = itertools.islice(self.goals(episode, rng, Variant.DEFAULT), _SUIT_TRIES)
        if any(episode.clear_goal(goal) for goal in goals):
            return Verdict(True)
        return Verdict(
            False,
            f"{thing.name}: it does not go on the {target.name}: none of {_SUIT_TRIES} poses was "
            "free of collisions there and on the way down.",
        )

    # --- what all tasks share --------------------------------------------------------------

    def reset(
        self,
        seed: int,
        setup: Setup = Setup.TRAINED,
        purpose: Purpose = Purpose.EVALUATION,
        things: Sequence[Thing] | None = None,
        noise: DepthNoise = NO_NOISE,
        fixed_carry: bool = False,
    ) -> Episode:
        """A new episode: things at rest, the robot at home, and at least one way to solve it.

        Args:
            seed: The same seed, setup and purpose give the same episode.
            setup: How it differs from the demonstrations.
            purpose: Demonstrations and evaluations never share random numbers.
            things: Use these objects instead of the task's own.
            noise: Of the depth cameras.
            fixed_carry: See `Episode`.

        Raises:
            SimError: No layout could be solved, for example because the objects do not suit.
        """
        rng = stream(purpose, self.name, setup, seed)
        # Drawn once: what is thrown away below must not favour easy objects or poses.
        thing, lying = self._draw_thing(setup, rng, things), draw_lying(setup, rng)
        rejected: list[str] = []
        for _ in range(_RESETS):
            tried = self._try_reset(seed, setup, rng, thing, lying, noise, fixed_carry)
            if isinstance(tried, Episode):
                tried.rejected = tuple(rejected)
                return tried
            rejected.append(tried)
        often = max(set(rejected), key=rejected.count)
        raise SimError(
            f"task {self.name!r}, setup {setup.value!r}, seed {seed}, object {thing.name!r}: none "
            f"of {_RESETS} layouts could be used ({rejected.count(often)} times because "
            f"{often}); try another object."
        )

    def _try_reset(
        self,
        seed: int,
        setup: Setup,
        rng: np.random.Generator,
        thing: Thing,
        lying: bool,
        noise: DepthNoise,
        fixed_carry: bool,
    ) -> Episode | str:
        """An episode, or why this layout is thrown away."""
        layout = draw_layout(thing, self.draw_target(rng), setup, lying, rng)
        world = World(
            Placed(thing, layout.item), Placed(layout.target_thing, layout.target),
            layout.supports, layout.distractors,
        )  # fmt: skip
        try:
            world.calm(0.7 if layout.lying else 0.25)
        except DivergedError:
            return UNSTABLE
        if not layout.as_meant(world.item_pose) or world.item_speed > 0.02:
            return UNSTABLE
        world.data.qvel[:] = 0.0
        episode = Episode(self, setup, seed, world, rng, noise, fixed_carry)
        found = self._search_pick(episode, rng, Variant.DEFAULT, _RESET_TRIES)
        if isinstance(found, str):
            return found
        episode.known_pick = found
        return episode

    def _draw_thing(
        self, setup: Setup, rng: np.random.Generator, things: Sequence[Thing] | None
    ) -> Thing:
        if things is not None:
            return things[int(rng.integers(len(things)))]
        if setup.unseen_instances:
            pool = self.unseen_things()
            return pool[int(rng.integers(len(pool)))].recolored(random_color(rng))
        pool = self.trained_things()
        return pool[int(rng.integers(len(pool)))]

    def holds(self, episode: Episode, goal: Pose) -> bool:
        """Whether the target surely keeps an object that is let go at T_scene_item = `goal`."""
        return True

    # --- the oracle: a policy that sees the true state -------------------------------------

    def oracle_pick(
        self,
        episode: Episode,
        rng: np.random.Generator | None = None,
        variant: Variant = Variant.DEFAULT,
    ) -> Pose | None:
        """A random feasible T_scene_gripper from which the object can also be placed, or None."""
        rng = episode.rng if rng is None else rng
        tries = _ALIKE_TRIES if variant is Variant.LOWVAR else _GRASP_TRIES
        found = self._search_pick(episode, rng, variant, tries)
        if not isinstance(found, str):
            return found
        return None if variant is Variant.LOWVAR else episode.known_pick

    def _search_pick(
        self, episode: Episode, rng: np.random.Generator, variant: Variant, tries: int
    ) -> Pose | str:
        """A pick as above, or why there is none."""
        world = episode.world
        item = world.item_pose
        taken = False
        for grasps in self.grasps(world.item.thing, rng, variant):
            hopeless = 0
            for grasp in itertools.islice(grasps, tries):
                pose = item @ grasp
                if not episode.feasible(pose, "pick"):
                    continue
                taken = True
                held = np.linalg.inv(grasp)
                place = self._some_goal(episode, held, rng, variant, OPENING / 8)
                if place is not None:
                    episode.known_goal = place @ held
                    return pose
                hopeless += 1
                if hopeless == _HOPELESS:
                    break
        return NO_PLACE if taken else NO_PICK

    def oracle_place(
        self,
        episode: Episode,
        rng: np.random.Generator | None = None,
        variant: Variant = Variant.DEFAULT,
    ) -> Pose | None:
        """A random feasible T_scene_gripper that releases the held object well, or None."""
        rng = episode.rng if rng is None else rng
        world = episode.world
        held = np.linalg.inv(world.hand_pose) @ world.item_pose
        for _ in range(_PLACE_ROUNDS):
            pose = self._some_goal(episode, held, rng, variant, None)
            if pose is not None:
                return pose
        if episode.known_goal is None:
            return None
        # What the pick was chosen for is nearly what is held now.
        pose = episode.known_goal @ np.linalg.inv(held)
        return pose if episode.can_place(pose, held) else None

    def _some_goal(
        self,
        episode: Episode,
        held: Pose,
        rng: np.random.Generator,
        variant: Variant,
        gap: float | None,
    ) -> Pose | None:
        goals = self.goals(episode, rng, variant)
        tries = 0
        for _ in range(_GOAL_DRAWS):
            goal = next(goals)
            if not episode.clear_goal(goal):
                continue
            pose = goal @ np.linalg.inv(held)
            if episode.can_place(pose, held, gap) and self.holds(episode, goal):
                return pose
            tries += 1
            if tries == _GOAL_TRIES:
                break
        return None


def run_oracle(episode: Episode, variant: Variant = Variant.DEFAULT) -> Verdict:
    """Do the whole episode with the task's oracle; the verdict of the first step that failed."""
    task = episode.task
    pick = task.oracle_pick(episode, variant=variant)
    if pick is None:
        return Verdict(False, "pick: the oracle found no feasible grasp")
    verdict = episode.pick(pick)
    if not verdict:
        return Verdict(False, f"pick: {verdict.reason}")
    place = task.oracle_place(episode, variant=variant)
    if place is None:
        return Verdict(False, "place: the oracle found no feasible pose")
    verdict = episode.place(place)
    if not verdict:
        return Verdict(False, f"place: {verdict.reason}")
    verdict = episode.success()
    return verdict if verdict else Verdict(False, f"judge: {verdict.reason}")

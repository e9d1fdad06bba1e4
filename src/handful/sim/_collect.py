"""Demonstrations: the oracle does the task, and what succeeded is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from handful.demos import Demonstration, DemoSet, Gripper, Step
from handful.errors import OptionError
from handful.sim._arm import OPENING, TIP
from handful.sim._cameras import NO_NOISE, DepthNoise
from handful.sim._errors import SimError
from handful.sim.objects import Thing
from handful.sim.tasks import Episode, Purpose, Setup, Task, Variant

GRIPPER = Gripper(tip=TIP, opening=OPENING, axis="x")

_PER_SEED = 100_000
"""Episodes between one seed's first and the next seed's."""
_TRIES_PER_DEMO = 6


def collect_demos(
    task: Task,
    count: int = 10,
    seed: int = 0,
    variant: Variant = Variant.DEFAULT,
    things: Sequence[Thing] | None = None,
    noise: DepthNoise = NO_NOISE,
    on_progress: Callable[[int, str], None] | None = None,
) -> DemoSet:
    """Demonstrations by the task's oracle in the trained setup, each one executed and judged.

    Args:
        task: What to show.
        count: How many successful ones, 1 to 1000.
        seed: The same seed gives the same demonstrations; no evaluation shares their numbers.
        variant: How the oracle picks.
        things: Objects to use instead of the task's own.
        noise: Of the depth cameras.
        on_progress: Told how many are done, and why an attempt was thrown away ("" if kept).

    Raises:
        OptionError: `count` or `seed` is out of range.
        SimError: The oracle fails too often, with its last reason.
    """
    if not 1 <= count <= 1000 or seed < 0:
        raise OptionError(f"collect: count {count}, seed {seed}: need 1 to 1000 and 0 or more.")
    kept: list[Demonstration] = []
    reason = ""
    for attempt in range(_TRIES_PER_DEMO * count):
        number = seed * _PER_SEED + attempt
        with task.reset(number, Setup.TRAINED, Purpose.DEMONSTRATION, things, noise) as episode:
            steps, reason = demonstrate(episode, variant)
        if steps:
            kept.append(Demonstration(f"demo_{len(kept):02d}", steps))
        if on_progress is not None:
            on_progress(len(kept), reason)
        if len(kept) == count:
            return DemoSet(tuple(kept), GRIPPER, task.description)
    raise SimError(
        f"task {task.name!r}: only {len(kept)} of {_TRIES_PER_DEMO * count} attempts succeeded, "
        f"{count} were asked for; the last failed because: {reason}."
    )


def demonstrate(episode: Episode, variant: Variant) -> tuple[tuple[Step, ...], str]:
    """Do one episode; its steps, or none and the reason why it failed."""
    task = episode.task
    scene, hand = episode.observe_scene(), episode.observe_grasp()
    pick = task.oracle_pick(episode, variant=variant)
    if pick is None:
        return (), "no feasible pick"
    first = Step("pick", scene, pick, hand)
    verdict = episode.pick(pick)
    if not verdict:
        return (), verdict.reason
    scene, hand = episode.observe_scene(), episode.observe_grasp()
    place = task.oracle_place(episode, variant=variant)
    if place is None:
        return (), "no feasible place"
    second = Step("place", scene, place, hand)
    verdict = episode.place(place)
    if verdict:
        verdict = episode.success()
    return ((first, second), "") if verdict else ((), verdict.reason)

"""Demonstrations: the oracle does the task, and what succeeded is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from handful._checks import check_seed, whole_number
from handful.demos import Demonstration, DemoSet, Gripper, Step, TaskStep
from handful.policy import Watcher
from handful.sim._errors import SimError
from handful.sim._hand import SIMULATED
from handful.sim._rig import DEFAULT_RIG, CameraRig
from handful.sim.objects import Pose, Thing
from handful.sim.tasks import Episode, Purpose, Setup, SimTask, Variant, run_oracle

_PER_SEED = 100_000
"""Episodes between one seed's first and the next seed's."""
_TRIES_PER_DEMO = 6


def collect_demos(
    task: SimTask,
    count: int = 10,
    seed: int = 0,
    variant: Variant = Variant.DEFAULT,
    things: Sequence[Thing] | Mapping[str, Sequence[Thing]] | None = None,
    rig: CameraRig = DEFAULT_RIG,
    on_progress: Callable[[int, str], None] | None = None,
    gripper: Gripper = SIMULATED,
) -> DemoSet:
    """Demonstrations by the oracle in the trained setup, each one executed and judged.

    Args:
        task: What to show.
        count: How many successful ones, 1 to 1000.
        seed: The same seed gives the same demonstrations; no evaluation shares their numbers.
        variant: How the oracle picks.
        things: Objects to use instead of the task's own; see `SimTask.reset`.
        rig: The depth cameras.
        on_progress: Told how many are done, and why an attempt was thrown away ("" if kept).
        gripper: The robot's hand.

    Raises:
        OptionError: `count` or `seed` is out of range.
        SimError: The oracle fails too often, with its last reason.
    """
    count, seed = whole_number("count", count, 1, 1000), check_seed(seed)
    kept: list[Demonstration] = []
    reason = ""
    for attempt in range(_TRIES_PER_DEMO * count):
        number = seed * _PER_SEED + attempt
        with task.reset(
            number, Setup.TRAINED, Purpose.DEMONSTRATION, things, rig, gripper=gripper
        ) as episode:
            recorder = Recorder(episode)
            verdict = run_oracle(episode, variant, recorder)
        reason = "" if verdict else verdict.reason
        if verdict:
            kept.append(Demonstration(f"demo_{len(kept):02d}", tuple(recorder.steps)))
        if on_progress is not None:
            on_progress(len(kept), reason)
        if len(kept) == count:
            return DemoSet(tuple(kept), gripper, task.description)
    raise SimError(
        f"task {task.name!r}: only {len(kept)} of {_TRIES_PER_DEMO * count} attempts succeeded, "
        f"{count} were asked for; the last failed because: {reason}."
    )


class Recorder(Watcher):
    """Keeps what was seen and done, step by step.

    Args:
        episode: Looked at once more in steps with an empty hand: the grasp cloud then shows the
            hand alone.

    Attributes:
        steps: What a demonstration of the episode consists of.
    """

    def __init__(self, episode: Episode) -> None:
        super().__init__()
        self._episode = episode
        self.steps: list[Step] = []

    def before(self, step: TaskStep, T_scene_gripper: Pose) -> None:
        """Keep the step with the pose that is about to be executed."""
        look = self.looks[-1]
        grasp = self._episode.observe_grasp() if look.grasp is None else look.grasp
        self.steps.append(Step(step.name, step.action, look.scene, T_scene_gripper, grasp))

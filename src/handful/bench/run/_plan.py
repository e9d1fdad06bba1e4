"""The benchmark: many episodes of some setups, stored as they end, resumed where they stopped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from handful._files import atomic_write_bytes, make_subfolder, remove_file
from handful._locks import alone
from handful.bench.run._executors import Executor
from handful.bench.run._hands import hand_for_bench, trained_hand
from handful.bench.run._policies import check_policy
from handful.bench.run._records import EpisodeRecord
from handful.bench.run._store import Conditions, EpisodeStore, fingerprint, models_fingerprint
from handful.bench.run._worker import (
    EpisodeJob,
    EpisodeResult,
    WorkerConfig,
)
from handful.demos import Gripper, Task
from handful.errors import OptionError
from handful.learning import RunFolder, method_of
from handful.policy import LEAST_CONFIDENCE, SAMPLES, check_least_confidence
from handful.sim import (
    DEFAULT_RIG,
    SIMULATED,
    CameraRig,
    Setup,
    folders_of_objects,
    task_named,
)

FOLDER = "bench"
"""In a run's folder: episodes, commands, and pictures of what failed."""
FAILURES = "failures"


@dataclass(frozen=True)
class BenchPlan:
    """What to run.

    Attributes:
        run: Folder of the run; results go into its folder `bench`.
        task: Name of the task.
        setups: Names of the setups.
        seeds: Of the episodes of each setup.
        policy: `model`, `oracle` or `random`.
        objects: Folder of meshes to use as unseen instances, for a task with several objects with
            a folder for each kind; None for the task's own.
        samples: Poses that a predictor is asked for in each step.
        stills: Draw episodes that failed.
        videos: Film episodes that failed.
        gripper: Name of the hand that the robot carries; empty for the one that the models were
            trained with, if the simulated robot can carry it, and else for the simulated one.
        rig: The cameras.
        look_ahead: Choose poses of models with the next step in mind.
        least_confidence: Poses of models with lower confidence are not executed.
        segmented: Tell models that have to be told (`policy.ToldPredictor`) which points are the
            object's. If not, everything in sight is taken for the object.
    """

    run: Path
    task: str
    setups: tuple[str, ...]
    seeds: range
    policy: str = "model"
    objects: Path | None = None
    samples: int = SAMPLES
    stills: bool = False
    videos: bool = False
    gripper: str = ""
    rig: CameraRig = DEFAULT_RIG
    look_ahead: bool = True
    least_confidence: float = LEAST_CONFIDENCE
    segmented: bool = True

    def __post_init__(self) -> None:
        if not self.setups or not len(self.seeds):
            raise OptionError("a benchmark needs at least one setup and one episode.")
        if self.samples < 1:
            raise OptionError(f"samples is {self.samples}: need 1 or more.")
        check_least_confidence(self.least_confidence)
        for name in self.setups:
            Setup.named(name)
        check_policy(self.policy, self.run, self.steps)
        if self.objects is not None:
            folders_of_objects(self.objects, task_named(self.task))
        if self.gripper:
            hand_for_bench(self.gripper, SIMULATED)

    @property
    def folder(self) -> Path:
        """Where results go."""
        return self.run / FOLDER

    @property
    def steps(self) -> Task:
        """The steps of the task."""
        return task_named(self.task).task

    @cached_property
    def hand(self) -> Gripper:
        """The hand that the robot carries."""
        return hand_for_bench(self.gripper, self._trained_hand)

    @cached_property
    def other_hand(self) -> str:
        """Name of the hand if it is not the one of the models; else empty."""
        return "" if self.hand.name == self._trained_hand.name else self.hand.name

    @cached_property
    def _trained_hand(self) -> Gripper:
        """The hand of the models; the simulated one for policies without models."""
        return trained_hand(self.run, self.steps) if self.policy == "model" else SIMULATED

    def conditions(self, setup: str) -> Conditions:
        """What the episodes of a setup have in common."""
        objects = ""
        if self.objects is not None and Setup.named(setup).unseen_instances:
            objects = f"{self.objects.resolve().name} {fingerprint(self.objects)}"
        models = ""
        if self.policy == "model":
            folder = RunFolder(self.run)
            models = models_fingerprint([folder.model(step.name) for step in self.steps])
        return Conditions(
            self.task,
            setup,
            self.policy,
            models,
            objects,
            self.samples,
            self.other_hand,
            self.rig.special,
            look_ahead=self._looks_ahead,
            least_confidence=self._least_confidence,
            segmented=self.segmented,
        )

    @property
    def _looks_ahead(self) -> bool:
        """Whether poses are chosen with the next step in mind.

        The yardsticks do not look ahead: the oracle knows, and chance does not care. Nor do methods
        that say so.
        """
        if not self.look_ahead or self.policy != "model":
            return False
        folder = RunFolder(self.run)
        return all(method_of(folder.model(step.name)).looks_ahead for step in self.steps)

    @property
    def _least_confidence(self) -> float:
        """The yardsticks are always sure."""
        return self.least_confidence if self.policy == "model" else 0.0

    @property
    def worker_config(self) -> WorkerConfig:
        """What the workers need to know."""
        return WorkerConfig(
            task=self.task,
            policy=self.policy,
            run=str(self.run.resolve()),
            gripper=self.hand.name,
            objects="" if self.objects is None else str(self.objects.resolve()),
            samples=self.samples,
            stills=self.stills,
            videos=self.videos,
            rig=self.rig,
            look_ahead=self._looks_ahead,
            least_confidence=self._least_confidence,
            segmented=self.segmented,
        )


def run_bench(
    plan: BenchPlan,
    executor: Executor | None = None,
    on_done: Callable[[EpisodeRecord, int, int], None] | None = None,
    fresh: bool = False,
) -> list[EpisodeRecord]:
    """Run what is not done yet; every episode is on the disk before the next is counted.

    Args:
        plan: What to run.
        executor: What runs it; this process if not given.
        on_done: Told of each episode, how many are done, and out of how many.
        fresh: Drop the episodes of earlier runs first.

    Returns:
        All episodes of the plan, by setup and seed, those of earlier runs included.

    Raises:
        BusyError: Another process adds to the same episodes.
    """
    make_subfolder(plan.folder)
    with ExitStack() as locks:
        for setup in dict.fromkeys(plan.setups):
            file = plan.folder / plan.conditions(setup).file_name
            locks.enter_context(alone(file.with_name(f".{file.name}.lock"), str(file)))
        return _run_missing(plan, executor or Executor(), on_done, fresh)


def _run_missing(
    plan: BenchPlan,
    executor: Executor,
    on_done: Callable[[EpisodeRecord, int, int], None] | None,
    fresh: bool,
) -> list[EpisodeRecord]:
    stores: dict[str, EpisodeStore] = {}
    for setup in plan.setups:
        conditions = plan.conditions(setup)
        if fresh:
            remove_file(plan.folder / conditions.file_name)
        stores[setup] = EpisodeStore(plan.folder, conditions)
    missing = [
        EpisodeJob(setup, seed)
        for setup, store in stores.items()
        for seed in plan.seeds
        if seed not in store.records
    ]
    total = len(plan.setups) * len(plan.seeds)
    done = total - len(missing)
    if missing:
        for result in executor.run(plan.worker_config, missing):
            store = stores[result.record.setup]
            store.add(result.record)
            _keep_pictures(store, result)
            done += 1
            if on_done is not None:
                on_done(result.record, done, total)
    return [stores[setup].records[seed] for setup in plan.setups for seed in plan.seeds]


def failure_picture(store_file: Path, seed: int, suffix: str = ".jpg") -> Path:
    """Where the picture of a failed episode is kept."""
    return store_file.parent / FAILURES / f"{store_file.stem}-{seed}{suffix}"


def _keep_pictures(store: EpisodeStore, result: EpisodeResult) -> None:
    video = ".gif" if result.video.startswith(b"GIF") else ".mp4"
    for content, suffix in ((result.stills, ".jpg"), (result.video, video)):
        if content:
            path = failure_picture(store.path, result.record.seed, suffix)
            make_subfolder(path.parent)
            atomic_write_bytes(path, content)

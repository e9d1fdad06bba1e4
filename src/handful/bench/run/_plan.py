"""The benchmark: many episodes of some setups, stored as they end, resumed where they stopped."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import handful
from handful._files import atomic_write_bytes
from handful.bench._crews import run_here, run_in_processes, run_on_ray
from handful.bench._episode import SAMPLES
from handful.bench._policies import check_policy
from handful.bench._record import EpisodeRecord
from handful.bench._statistics import Summary, summarise
from handful.bench._store import Conditions, EpisodeStore, fingerprint, models_fingerprint
from handful.bench._worker import Done, Job, Workplace, use_one_thread
from handful.errors import OptionError
from handful.sim import Setup

FOLDER = "bench"
"""In a run's folder: episodes, commands, and what failed."""
FAILURES = "failures"
COMMANDS = "commands.jsonl"


@dataclass(frozen=True)
class BenchPlan:
    """What to run.

    Attributes:
        run: Folder of the run; results go into its folder `bench`.
        task: Name of the task.
        setups: Names of the setups.
        seeds: Of the episodes of each setup.
        policy: `model`, `oracle` or `random`.
        objects: Folder of meshes to use as unseen instances; None for the task's own.
        samples: Poses that a model is asked for in each step.
        stills: Draw episodes that failed.
        videos: Film episodes that failed.
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

    def __post_init__(self) -> None:
        if not self.setups or not len(self.seeds):
            raise OptionError("a benchmark needs at least one setup and one episode.")
        if self.samples < 1:
            raise OptionError(f"samples is {self.samples}: need 1 or more.")
        for name in self.setups:
            Setup.named(name)
        check_policy(self.policy, self.run)

    @property
    def folder(self) -> Path:
        """Where results go."""
        return self.run / FOLDER

    def conditions(self, setup: str) -> Conditions:
        """What the episodes of a setup have in common."""
        objects = ""
        if self.objects is not None and Setup.named(setup).unseen_instances:
            objects = f"{self.objects.resolve().name} {fingerprint(self.objects)}"
        models = models_fingerprint(self.run) if self.policy == "model" else ""
        return Conditions(self.task, setup, self.policy, models, objects, self.samples)

    @property
    def workplace(self) -> Workplace:
        """What the workers need to know."""
        return Workplace(
            task=self.task,
            policy=self.policy,
            run=str(self.run.resolve()),
            objects="" if self.objects is None else str(self.objects.resolve()),
            samples=self.samples,
            stills=self.stills,
            videos=self.videos,
        )


@dataclass(frozen=True)
class Crew:
    """Who runs the episodes.

    Attributes:
        workers: Processes at once; None for one on this machine, all that a cluster has on Ray.
        ray: Address of a Ray cluster, `auto` for the present one; None for this machine.
    """

    workers: int | None = None
    ray: str | None = None

    def run(self, place: Workplace, jobs: Sequence[Job]) -> Iterator[Done]:
        """Run episodes; in the order in which they end."""
        if self.ray is not None:
            return run_on_ray(place, jobs, self.ray, self.workers)
        if (self.workers or 1) == 1:
            return run_here(place, jobs)
        return run_in_processes(place, jobs, self.workers or 1)


def run_bench(
    plan: BenchPlan,
    crew: Crew | None = None,
    on_done: Callable[[EpisodeRecord, int, int], None] | None = None,
    fresh: bool = False,
) -> list[EpisodeRecord]:
    """Run what is not done yet; every episode is on the disk before the next is counted.

    Args:
        plan: What to run.
        crew: Who runs it; this process if not given.
        on_done: Told of each episode, how many are done, and out of how many.
        fresh: Drop the episodes of earlier runs first.

    Returns:
        All episodes of the plan, by setup and seed, those of earlier runs included.
    """
    stores: dict[str, EpisodeStore] = {}
    for setup in plan.setups:
        conditions = plan.conditions(setup)
        if fresh:
            (plan.folder / conditions.file_name).unlink(missing_ok=True)
        stores[setup] = EpisodeStore(plan.folder, conditions)
    missing = [
        Job(setup, seed)
        for setup, store in stores.items()
        for seed in plan.seeds
        if seed not in store.records
    ]
    total = len(plan.setups) * len(plan.seeds)
    done = total - len(missing)
    if missing:
        use_one_thread()
        for one in (crew or Crew()).run(plan.workplace, missing):
            stores[one.record.setup].add(one.record)
            _keep_pictures(plan, stores[one.record.setup], one)
            done += 1
            if on_done is not None:
                on_done(one.record, done, total)
    return [stores[setup].records[seed] for setup in plan.setups for seed in plan.seeds]


def table_of(records: Sequence[EpisodeRecord]) -> list[Summary]:
    """A row for each task and setup, in the order in which they come."""
    groups: dict[tuple[str, str], list[EpisodeRecord]] = {}
    for record in records:
        groups.setdefault((record.task, record.setup), []).append(record)
    return [summarise(group) for group in groups.values()]


def note_command(folder: Path, command: str) -> None:
    """Remember a command that was given, for the report."""
    folder.mkdir(parents=True, exist_ok=True)
    line = {
        "command": command,
        "handful": handful.__version__,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    with open(folder / COMMANDS, "a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def failure_picture(store_file: Path, seed: int, suffix: str = ".jpg") -> Path:
    """Where the picture of a failed episode is kept."""
    return store_file.parent / FAILURES / f"{store_file.stem}-{seed}{suffix}"


def _keep_pictures(plan: BenchPlan, store: EpisodeStore, done: Done) -> None:
    for content, suffix in ((done.stills, ".jpg"), (done.video, _video_suffix(done.video))):
        if content:
            path = failure_picture(store.path, done.record.seed, suffix)
            path.parent.mkdir(exist_ok=True)
            atomic_write_bytes(path, content)


def _video_suffix(content: bytes) -> str:
    return ".gif" if content.startswith(b"GIF") else ".mp4"

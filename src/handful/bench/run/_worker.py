"""What one process does: reset, run the policy, and film it again if it failed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from handful.bench._episode import SAMPLES, run_episode
from handful.bench._film import filming, sheet_of_failure, video_of_failure
from handful.bench._policies import policy_maker
from handful.bench._record import EpisodeRecord, Failure
from handful.sim import Episode, Setup, SimError, Thing, load_things, task_named


@dataclass(frozen=True)
class Workplace:
    """All that a process needs to know, in plain words and numbers.

    Attributes:
        task: Name of the task.
        policy: Name of the policy.
        run: Folder of the trained models.
        objects: Folder of meshes to use as unseen instances; empty for the task's own.
        samples: Poses that a model is asked for.
        stills: Draw episodes that failed.
        videos: Film episodes that failed.
    """

    task: str
    policy: str
    run: str
    objects: str = ""
    samples: int = SAMPLES
    stills: bool = False
    videos: bool = False


@dataclass(frozen=True)
class Job:
    """One episode to run."""

    setup: str
    seed: int


@dataclass(frozen=True)
class Done:
    """One episode that was run.

    Attributes:
        record: How it went.
        stills: A JPEG, if it failed and stills were asked for.
        video: An MP4 or GIF, the same way.
    """

    record: EpisodeRecord
    stills: bytes = b""
    video: bytes = b""


class Worker:
    """Runs episodes, one after the other; loads models and meshes once."""

    def __init__(self, place: Workplace) -> None:
        use_one_thread()
        self._place = place
        self._task = task_named(place.task)
        self._maker = policy_maker(place.policy, Path(place.run))
        self._things: list[Thing] | None = None
        if place.objects:
            self._things, _ = load_things(Path(place.objects), place.task)

    def run(self, job: Job) -> Done:
        """Run one episode; the same job gives the same episode in any process."""
        try:
            with self._reset(job) as episode:
                record = run_episode(episode, self._maker, self._place.samples)
        except SimError as error:
            record = EpisodeRecord(
                self._place.task, job.setup, job.seed, failure=Failure.NO_LAYOUT, reason=str(error)
            )
        if record.success or not record.counts or not (self._place.stills or self._place.videos):
            return Done(record)
        return self._filmed(job, record)

    def _filmed(self, job: Job, record: EpisodeRecord) -> Done:
        """Run a failed episode once more, which goes the same way, with the camera on."""
        with self._reset(job) as episode:
            watcher = filming(episode, moving=self._place.videos)
            run_episode(episode, self._maker, self._place.samples, watcher)
            return Done(
                record,
                sheet_of_failure(record, watcher) if self._place.stills else b"",
                video_of_failure(watcher) if self._place.videos else b"",
            )

    def _reset(self, job: Job) -> Episode:
        setup = Setup.named(job.setup)
        return self._task.reset(
            job.seed, setup, things=self._things if setup.unseen_instances else None
        )


def use_one_thread() -> None:
    """One thread for each process: as many processes as cores are faster, and sums of numbers
    come out the same however many there are.
    """  # noqa: D205
    import torch

    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)

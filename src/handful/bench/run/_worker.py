"""What one process does: reset, run the policy, and film the episode again if it failed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from handful.bench.run._episode import Caution, run_episode
from handful.bench.run._film import FilmingWatcher, sheet_of_failure, video_of_failure
from handful.bench.run._policies import policy_maker
from handful.bench.run._records import EpisodeRecord
from handful.demos import gripper_named
from handful.policy import LEAST_CONFIDENCE, SAMPLES
from handful.sim import (
    DEFAULT_RIG,
    CameraRig,
    Episode,
    Setup,
    SimError,
    SimTask,
    Thing,
    folders_of_objects,
    load_things,
    task_named,
)


@dataclass(frozen=True)
class WorkerConfig:
    """All that a worker needs to know, in plain words and numbers.

    Attributes:
        task: Name of the task.
        policy: Name of the policy.
        run: Folder of the trained models.
        gripper: Name of the hand that the robot carries.
        objects: Folder of meshes to use as unseen instances, for a task with several objects with
            a folder for each kind; empty for the task's own.
        samples: Poses that a predictor is asked for.
        stills: Draw episodes that failed.
        videos: Film episodes that failed.
        rig: The cameras.
        look_ahead: Choose poses with the next step in mind.
        least_confidence: Poses of lower confidence are not executed.
        segmented: Models that have to be told which points are the object's are told.
    """

    task: str
    policy: str
    run: str
    gripper: str
    objects: str = ""
    samples: int = SAMPLES
    stills: bool = False
    videos: bool = False
    rig: CameraRig = DEFAULT_RIG
    look_ahead: bool = True
    least_confidence: float = LEAST_CONFIDENCE
    segmented: bool = True

    @property
    def caution(self) -> Caution:
        """How careful the robot is."""
        return Caution(self.least_confidence, self.look_ahead)


@dataclass(frozen=True)
class EpisodeJob:
    """One episode to run."""

    setup: str
    seed: int


@dataclass(frozen=True)
class EpisodeResult:
    """One episode that was run.

    Attributes:
        record: How it went.
        stills: A JPEG, if the episode failed and stills were asked for.
        video: An MP4 or GIF, if the episode failed and videos were asked for.
    """

    record: EpisodeRecord
    stills: bytes = b""
    video: bytes = b""


class Worker:
    """Runs episodes, one after the other; loads models and meshes once."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._task = task_named(config.task)
        self._hand = gripper_named(config.gripper)
        self._maker = policy_maker(
            config.policy, Path(config.run), self._task.task, self._hand, config.segmented
        )
        self._things = _things(Path(config.objects), self._task) if config.objects else None

    def run(self, job: EpisodeJob) -> EpisodeResult:
        """Run one episode; the same job gives the same episode in any process."""
        config = self._config
        try:
            with self._reset(job) as episode:
                record = run_episode(episode, self._maker, config.samples, caution=config.caution)
        except SimError as error:
            planned = self._task.task.names
            record = EpisodeRecord(config.task, job.setup, job.seed, planned, reason=str(error))
        if record.success or not record.begun or not (config.stills or config.videos):
            return EpisodeResult(record)
        return self._filmed(job, record)

    def _filmed(self, job: EpisodeJob, record: EpisodeRecord) -> EpisodeResult:
        """Run a failed episode once more, which goes the same way, with the camera on."""
        config = self._config
        with self._reset(job) as episode:
            watcher = FilmingWatcher.of(episode, moving=config.videos)
            run_episode(episode, self._maker, config.samples, watcher, config.caution)
            return EpisodeResult(
                record,
                sheet_of_failure(record, watcher) if config.stills else b"",
                video_of_failure(watcher) if config.videos else b"",
            )

    def _reset(self, job: EpisodeJob) -> Episode:
        setup = Setup.named(job.setup)
        things = self._things if setup.unseen_instances else None
        rig = self._config.rig
        return self._task.reset(job.seed, setup, things=things, rig=rig, gripper=self._hand)


def _things(folder: Path, task: SimTask) -> dict[str, list[Thing]]:
    """The usable meshes of a folder, by kind of object."""
    folders = folders_of_objects(folder, task)
    return {kind: load_things(where, kind)[0] for kind, where in folders.items()}

"""All that a run's folder tells: what was trained, and how it did."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from handful.bench._errors import BenchError
from handful.bench.report._curve import CURVE, CurvePoint
from handful.bench.report._statistics import Summary, summarise
from handful.bench.run import (
    COMMANDS,
    EVALUATION,
    FOLDER,
    CommandNote,
    Conditions,
    EpisodeRecord,
    failure_picture,
    kind_of_seeds,
    read_commands,
    read_episodes,
)
from handful.errors import FileFormatError
from handful.learning import LogEntry, RunFolder, RunSummary, TrainedStep


@dataclass(frozen=True)
class Result:
    """The episodes of one file of which the report speaks.

    Attributes:
        path: The file.
        conditions: What they have in common.
        records: Those on evaluation seeds if there are any, else all.
    """

    path: Path
    conditions: Conditions
    records: tuple[EpisodeRecord, ...]

    @property
    def summary(self) -> Summary:
        """Their row of the table; the paper's figures are for its own objects, hand and cameras."""
        row = summarise(self.records)
        return row if self.conditions.is_plain else replace(row, paper=None)

    @property
    def label(self) -> str:
        """The setup, and what else is special."""
        return ", ".join([self.conditions.setup, *self.special])

    @property
    def special(self) -> list[str]:
        """What differs from models with the task's own objects, their hand and the default rig."""
        words = []
        if self.conditions.objects:
            words.append(f"meshes {self.conditions.objects_name}")
        if self.conditions.gripper:
            words.append(f"hand {self.conditions.gripper}")
        if self.conditions.rig:
            words.append(self.conditions.rig)
        if self.conditions.policy != "model":
            words.append(self.conditions.policy)
        return words + self.conditions.caution

    @property
    def kind_of_seeds(self) -> str:
        """What its seeds may be used for."""
        seeds = [record.seed for record in self.records]
        return kind_of_seeds(range(min(seeds), max(seeds) + 1))

    @property
    def failures(self) -> list[EpisodeRecord]:
        """The episodes that failed."""
        return [record for record in self.records if record.begun and not record.success]

    def picture_of(self, record: EpisodeRecord) -> Path:
        """Where the picture of a failed episode is, if one was made."""
        return failure_picture(self.path, record.seed)


@dataclass(frozen=True)
class RunResults:
    """A run.

    Attributes:
        folder: The run's folder.
        results: Of its benchmark, by task and setup.
        steps: Names of the steps, in order: those that were trained, and others that were run.
        training: What `run.json` says; nothing if there is none.
        commands: Of the benchmark, as they were given.
        curve: Its learning curve; empty if there is none.
    """

    folder: Path
    results: tuple[Result, ...]
    steps: tuple[str, ...]
    training: RunSummary
    commands: tuple[CommandNote, ...]
    curve: tuple[CurvePoint, ...]

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks that were run."""
        names = {result.conditions.task for result in self.results}
        return sorted(names | {point.summary.task for point in self.curve})

    def trained(self, step: str) -> TrainedStep:
        """What `run.json` says of the model of a step; nothing known if it says nothing."""
        return self.training.models.get(step, TrainedStep())

    def training_log(self, step: str) -> list[LogEntry]:
        """One entry for each training step of a model; empty if there is no log."""
        return RunFolder(self.folder).curve(step)


_CURVE_FOLDER = re.compile(r"demos-([0-9]{1,6})")
_ORDER = ("trained", "instances", "poses", "distractors", "all")


def read_runs(folder: Path) -> list[RunResults]:
    """The run in a folder, or the runs in its folders.

    Raises:
        BenchError: No run there was benchmarked.
    """
    if was_benchmarked(folder):
        return [read_run(folder)]
    below = _inside(folder) if folder.is_dir() else []
    runs = [read_run(one) for one in below if was_benchmarked(one)]
    if not runs:
        there = "holds no results" if Path(folder).is_dir() else "there is no such folder"
        raise BenchError(
            f"{folder}: {there}; run the benchmark first: handful bench TASK --run {folder}"
        )
    return runs


def read_run(folder: Path) -> RunResults:
    """The run in a folder.

    Raises:
        BenchError: It was not benchmarked.
        FileFormatError: A file is not what it should be.
    """
    results = _results(folder)
    curve = curve_of(folder)
    if not results and not curve:
        raise BenchError(f"{folder / FOLDER}: holds no finished episode.")
    training = RunFolder(folder).summary()
    summaries = [one.summary for one in results] + [one.summary for one in curve]
    return RunResults(
        folder,
        tuple(results),
        _steps(folder, summaries),
        training,
        tuple(read_commands(folder / FOLDER / COMMANDS)),
        tuple(_with_the_run_itself(curve, results, training)),
    )


def _results(folder: Path) -> list[Result]:
    """Finished episodes of a run, by task and setup."""
    results = []
    for path in sorted((folder / FOLDER).glob("*.jsonl")):
        if path.name == COMMANDS:
            continue
        conditions, records = read_episodes(path)
        judged = [record for record in records if record.seed in EVALUATION]
        if records:
            results.append(Result(path, conditions, tuple(judged or records)))
    results.sort(key=lambda one: (one.conditions.task, _rank(one.conditions.setup), one.path.name))
    return results


def curve_of(run: Path) -> list[CurvePoint]:
    """The points of a run's learning curve that were benchmarked, by number of demonstrations."""
    points = []
    for folder in sorted((run / CURVE).glob("demos-*")):
        number = _CURVE_FOLDER.fullmatch(folder.name)
        if number is not None and (folder / FOLDER).is_dir():
            results = _results(folder)
            if results:  # else interrupted before its first episode
                points.append(CurvePoint(int(number[1]), results[-1].summary))
    return points


def _steps(folder: Path, summaries: list[Summary]) -> tuple[str, ...]:
    """Steps that were trained, and then those that were run and are not among them."""
    run = RunFolder(folder)
    try:
        trained = run.task.names
    except FileFormatError:
        if run.summary().task is not None:
            raise
        trained = ()  # nothing was trained there: the oracle ran, or chance
    names = [*trained, *(name for row in summaries for name in row.step_names)]
    return tuple(dict.fromkeys(names))


def _with_the_run_itself(
    curve: list[CurvePoint], results: list[Result], training: RunSummary
) -> list[CurvePoint]:
    """A curve with the models of the run, in the same setup, as one more point."""
    count = training.demonstrations.count
    if curve and count is not None and count not in [one.demonstrations for one in curve]:
        for result in results:
            if result.conditions.is_plain and result.summary.setup == curve[0].summary.setup:
                curve = [*curve, CurvePoint(count, result.summary)]
    return sorted(curve, key=lambda one: one.demonstrations)


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise BenchError(f"{folder}: cannot be read: {error.strerror}.") from error


def was_benchmarked(folder: Path) -> bool:
    """Whether a folder holds results of the benchmark."""
    return (folder / FOLDER).is_dir() or (folder / CURVE).is_dir()


def _rank(setup: str) -> int:
    return _ORDER.index(setup) if setup in _ORDER else len(_ORDER)

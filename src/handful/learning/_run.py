"""A training run on disk: what was asked for, a log line a step, checkpoints, trained models.

RUN/run.json                     the task's steps, demonstrations, options, versions, seconds
RUN/STEP.log.jsonl               one JSON object for each optimiser step
RUN/STEP.checkpoint.safetensors  while training is under way
RUN/STEP/                        the predictor of the step of that name
"""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import handful
from handful._checks import path_of
from handful._files import (
    atomic_write_bytes,
    atomic_write_text,
    make_folder,
    refuse_link_out,
    remove_file,
)
from handful._locks import alone, exclusive
from handful._names import printable
from handful._strict_json import MAX_TEXT, read_json
from handful.demos import Action, DemoSet, Task, TaskStep
from handful.errors import FileFormatError, OptionError
from handful.learning._checkpoint import check_same, checkpoint_bytes, resume_from
from handful.learning._method import StepRecipe, StepTrainer
from handful.learning._registry import load_trained, method_named
from handful.learning._run_json import (
    FORMAT,
    VERSION,
    LogEntry,
    RunSummary,
    TrainedStep,
    read_log,
    summary_from_json,
)
from handful.learning._trainer import StepReport, rank
from handful.policy import TrainedPredictor

SUMMARY = "run.json"
LOCK = ".run.lock"

SECONDS_BETWEEN_CHECKPOINTS = 20.0


@dataclass(frozen=True)
class RunFolder:
    """The files of one run.

    Attributes:
        path: The folder.
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", path_of("path", self.path))

    def model(self, step: str) -> Path:
        """Folder of the predictor of a step."""
        return self.path / _checked(step)

    def log(self, step: str) -> Path:
        """Its training log."""
        return self.path / f"{_checked(step)}.log.jsonl"

    def checkpoint(self, step: str) -> Path:
        """Its checkpoint."""
        return self.path / f"{_checked(step)}.checkpoint.safetensors"

    def lock(self, step: str) -> Path:
        """The file that a process holds while it trains the step."""
        return self.path / f".{_checked(step)}.lock"

    def summary(self) -> RunSummary:
        """What `run.json` says; nothing when there is none.

        Raises:
            FileFormatError: The file is not what it should be.
        """
        return summary_from_json(self._content(), str(self.path / SUMMARY))

    @property
    def task(self) -> Task:
        """The steps of the task that the run is for, in order.

        A run of version 1 does not say them. Its models are called by their actions.

        Raises:
            FileFormatError: There is no run in the folder.
        """
        noted = self.summary().task
        if noted is not None:
            return noted
        found = [action for action in Action if self.model(action.value).is_dir()]
        if not found:
            there = "holds no training run" if self.path.is_dir() else "there is no such folder"
            raise FileFormatError(f"{self.path}: {there}: give the folder of `handful train`.")
        return Task(tuple(TaskStep(action.value, action) for action in found))

    def trained(self, step: str) -> TrainedStep:
        """What `run.json` says of the model of a step; nothing known when it says nothing."""
        return self.summary().models.get(step, TrainedStep())

    def predictor(self, step: str) -> TrainedPredictor:
        """The predictor of one step.

        Raises:
            FileFormatError: It is missing; the message says how to train it.
        """
        if not self.model(step).is_dir():
            raise FileFormatError(self._why_no_model(self.task.step(step).name))
        return load_trained(self.model(step))

    def _why_no_model(self, step: str) -> str:
        """Whether the run is unfinished, partial or not begun, and the command that mends it."""
        others = [repr(one.name) for one in self.task if self.model(one.name).is_dir()]
        begun = self.checkpoint(step).exists()
        if begun:
            state = f"the run is unfinished: the step {step!r} was not trained to the end"
        elif others:
            state = f"the run is partial: it has {', '.join(others)}, and {step!r} was not trained"
        else:
            state = f"the run was not begun: the step {step!r} was not trained"
        folder = self.summary().demonstrations.folder
        words = ["handful", "train", folder or "DEMOS", "--out", str(self.path)]
        words += ["--step", step, *(["--resume"] if begun else [])]
        return f"{self.path}: {state}: {shlex.join(words)}"

    def predictors(self) -> dict[str, TrainedPredictor]:
        """The predictors of all steps, by name."""
        return {step.name: self.predictor(step.name) for step in self.task}

    def note(self, **entries: Any) -> None:
        """Add entries to `run.json`; entries that are objects are merged.

        Processes that train steps of one run note one after the other.

        Raises:
            FileFormatError: `run.json` is not what it should be, or cannot be written.
        """
        with exclusive(self.path / LOCK):
            content = self._content() or {"format": FORMAT, "version": VERSION}
            for name, value in entries.items():
                old = content.get(name)
                if isinstance(old, dict) and isinstance(value, dict):
                    value = {**old, **value}
                content[name] = value
            summary_from_json(content, str(self.path / SUMMARY))
            atomic_write_text(self.path / SUMMARY, json.dumps(content, indent=2) + "\n")

    def note_training(
        self, demos: str | Path, count: int, command: str, options: dict[str, Any]
    ) -> None:
        """Note what a training was given, for people and for the report.

        Args:
            demos: Folder of the demonstrations.
            count: How many there are.
            command: That was given.
            options: By name.
        """
        self.note(
            demonstrations={"folder": printable(str(demos)), "count": count},
            options=options,
            command=printable(command)[:MAX_TEXT],
        )

    def holds(self, demos: DemoSet, recipe: StepRecipe) -> bool:
        """Whether the model that these demonstrations and this recipe lead to is there."""
        step = recipe.step.name
        mark = self.trained(step).fingerprint
        return self.model(step).exists() and mark == fingerprint(demos, recipe)

    def curve(self, step: str) -> list[LogEntry]:
        """The training log.

        Raises:
            FileFormatError: A line of it is something else.
        """
        return read_log(self.log(step))

    def _content(self) -> dict[str, Any]:
        """What `run.json` holds, checked; empty when there is none."""
        file = self.path / SUMMARY
        content = read_json(file) if file.is_file() else {}
        summary_from_json(content, str(file))
        return content


def _checked(step: str) -> str:
    """The name of a step, once it is clear that it names a file inside of the run's folder."""
    return TaskStep(step, Action.PICK).name


def train_in_folder(
    demos: DemoSet,
    recipe: StepRecipe,
    folder: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    report: Callable[[StepReport], None] | None = None,
    checkpoint_seconds: float = SECONDS_BETWEEN_CHECKPOINTS,
) -> TrainedPredictor:
    """Train one model of a run, so that nothing is lost when it is interrupted.

    Args:
        demos: What to learn from.
        recipe: What to train and how.
        folder: The run's folder; made when missing.
        resume: Go on from the checkpoint, if there is one; a finished model is just loaded.
        overwrite: Train anew where a model or a checkpoint is already there.
        report: Called after every step.
        checkpoint_seconds: Between two checkpoints.

    Raises:
        BusyError: Another process trains this step of the run.
    """
    run = RunFolder(Path(folder))
    options = (resume, overwrite, report, checkpoint_seconds)
    if rank() != 0:  # the first process of `torchrun` holds the lock and writes
        return _train_in_folder(demos, recipe, run, *options)
    make_folder(run.path)
    refuse_link_out(run.model(recipe.step.name))
    with alone(run.lock(recipe.step.name), f"{run.path}: the step {recipe.step.name!r}"):
        return _train_in_folder(demos, recipe, run, *options)


def _train_in_folder(
    demos: DemoSet,
    recipe: StepRecipe,
    run: RunFolder,
    resume: bool,
    overwrite: bool,
    report: Callable[[StepReport], None] | None,
    checkpoint_seconds: float,
) -> TrainedPredictor:
    step = recipe.step.name
    mark = fingerprint(demos, recipe)
    if _is_done(run, step, mark, resume, overwrite):
        return load_trained(run.model(step))
    method = method_named(recipe.method)
    trainer = method.trainer(demos, recipe)
    spent = 0.0
    if resume and run.checkpoint(step).exists():
        spent = resume_from(trainer, run.checkpoint(step), mark)
    if rank() != 0:
        trainer.run()
        return method.finish(trainer, demos, recipe)
    run.note(
        version=VERSION,
        handful=handful.__version__,
        torch=torch.__version__,
        python=platform.python_version(),
        steps=[{"name": one.name, "action": one.action.value} for one in demos.task],
    )
    keeper = _Keeper(run, step, trainer, mark, spent, report, checkpoint_seconds)
    try:
        trainer.run(keeper.step_done)
    finally:
        keeper.save()
    predictor = method.finish(trainer, demos, recipe)
    method.save(predictor, run.model(step))
    summary = {"seconds": round(keeper.seconds, 2), "fingerprint": mark, "skipped": trainer.skipped}
    more: dict[str, Any] = {"steps": trainer.done, "seed": recipe.training.seed}
    run.note(models={step: {**summary, **more, **method.notes(trainer, recipe)}})
    remove_file(run.checkpoint(step))
    return predictor


def is_trained(
    demos: DemoSet,
    recipe: StepRecipe,
    folder: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> bool:
    """Whether `train_in_folder` would only load a finished model, which is whole.

    Args:
        demos: As for `train_in_folder`.
        recipe: As for `train_in_folder`.
        folder: As for `train_in_folder`.
        resume: As for `train_in_folder`.
        overwrite: As for `train_in_folder`.

    Raises:
        HandfulError: `train_in_folder` would refuse what is there.
    """
    run = RunFolder(Path(folder))
    model = run.model(recipe.step.name)
    refuse_link_out(model)
    mark = fingerprint(demos, recipe)
    if not _is_done(run, recipe.step.name, mark, resume, overwrite):
        return False
    load_trained(model)
    return True


def _is_done(run: RunFolder, step: str, mark: str, resume: bool, overwrite: bool) -> bool:
    """Whether the model is there; refuses what must not be lost and what is something else's."""
    there = run.model(step).exists() or run.checkpoint(step).exists()
    if there and not (resume or overwrite):
        raise OptionError(
            f"{run.path}: the step {step!r} was begun there. Go on with --resume, begin anew with "
            "--overwrite, or name another folder."
        )
    if not (resume and run.model(step).exists()):
        return False
    check_same(run.trained(step).fingerprint, mark, run.model(step))
    return True


def fingerprint(demos: DemoSet, recipe: StepRecipe) -> str:
    """The same for the same demonstrations and recipe, and for no others."""
    digest = hashlib.sha256(repr(recipe).encode())
    digest.update(repr(demos.gripper).encode())
    for demo in demos:
        for step in demo.steps:
            digest.update(f"{demo.name} {step.name} {step.action.value}".encode())
            digest.update(np.ascontiguousarray(step.targets).tobytes())
            for cloud in (step.scene, step.grasp):
                if cloud is not None:
                    digest.update(np.ascontiguousarray(cloud.points).tobytes())
                    if cloud.has_colors:
                        digest.update(np.ascontiguousarray(cloud.require_colors()).tobytes())
    return digest.hexdigest()


class _Keeper:
    """Writes the log as steps end, and a checkpoint now and then and at the end.

    The state is copied after every step, so that an interrupt in the middle of the next one still
    leaves a whole step to go on from.
    """

    def __init__(
        self,
        run: RunFolder,
        step: str,
        trainer: StepTrainer,
        mark: str,
        spent: float,
        report: Callable[[StepReport], None] | None,
        pause: float,
    ) -> None:
        self._run, self._step, self._trainer, self._mark = run, step, trainer, mark
        self._report, self._spent, self._pause = report, spent, pause
        self._start = self._saved = time.monotonic()
        self._state = trainer.state()
        kept = run.curve(step)[: trainer.done] if trainer.done else []
        self._lines = [line.to_json() for line in kept]
        self._write_log()

    @property
    def seconds(self) -> float:
        """Time that training took, that before a resumption included."""
        return self._spent + time.monotonic() - self._start

    def step_done(self, report: StepReport) -> None:
        self._state = self._trainer.state()
        entry = LogEntry(**asdict(report), seconds=round(self.seconds, 3))
        self._lines.append(entry.to_json())
        if time.monotonic() - self._saved > self._pause:
            self.save()
        if self._report is not None:
            self._report(report)

    def save(self) -> None:
        content = checkpoint_bytes(self._state, self._mark, self.seconds)
        atomic_write_bytes(self._run.checkpoint(self._step), content)
        self._write_log()
        self._saved = time.monotonic()

    def _write_log(self) -> None:
        text = "".join(f"{line}\n" for line in self._lines)
        atomic_write_text(self._run.log(self._step), text)

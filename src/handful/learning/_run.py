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
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

import handful
from handful._files import atomic_write_bytes, atomic_write_text, exclusive
from handful._strict_json import Fields, read_json
from handful.demos import Action, DemoSet, Task, TaskStep
from handful.errors import FileFormatError, HandfulError, OptionError
from handful.learning._recipe import Recipe
from handful.learning._train import finish, make_trainer
from handful.learning._trainer import StepReport, Trainer, rank
from handful.policy import Predictor, load_predictor, save_predictor

SUMMARY = "run.json"
LOCK = ".run.lock"
FORMAT = "handful-run"
VERSION = 2

SECONDS_BETWEEN_CHECKPOINTS = 20.0


@dataclass(frozen=True)
class RunFolder:
    """The files of one run.

    Attributes:
        path: The folder.
    """

    path: Path

    def model(self, step: str) -> Path:
        """Folder of the predictor of a step."""
        return self.path / step

    def log(self, step: str) -> Path:
        """Its training log."""
        return self.path / f"{step}.log.jsonl"

    def checkpoint(self, step: str) -> Path:
        """Its checkpoint."""
        return self.path / f"{step}.checkpoint.safetensors"

    def summary(self) -> dict[str, Any]:
        """What `run.json` holds; empty when there is none."""
        file = self.path / SUMMARY
        content = read_json(file) if file.is_file() else {}
        if not isinstance(content, dict):
            raise FileFormatError(f"{file}: need an object with fields.")
        return content

    @property
    def task(self) -> Task:
        """The steps of the task that the run is for, in order.

        A run of version 1 does not say them. Its models are called by their actions.

        Raises:
            FileFormatError: There is no run in the folder.
        """
        noted = self.summary().get("steps")
        if noted is not None:
            return _task_from_json(noted, f"{self.path / SUMMARY}: steps")
        found = [action for action in Action if self.model(action.value).is_dir()]
        if not found:
            there = "holds no training run" if self.path.is_dir() else "there is no such folder"
            raise FileFormatError(f"{self.path}: {there}: give the folder of `handful train`.")
        return Task(tuple(TaskStep(action.value, action) for action in found))

    def trained(self, step: str) -> dict[str, Any]:
        """What `run.json` says of the model of a step; empty when it says nothing."""
        content = self.summary()
        models = content.get("models", content)  # version 1 had them at the top
        found = models.get(step) if isinstance(models, dict) else None
        return found if isinstance(found, dict) else {}

    def predictor(self, step: str) -> Predictor:
        """The predictor of one step.

        Raises:
            FileFormatError: It is missing; the message says how to train it.
        """
        if not self.model(step).is_dir():
            raise FileFormatError(self._why_no_model(step))
        return load_predictor(self.model(step))

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
        noted = self.summary().get("demonstrations")
        folder = noted.get("folder") if isinstance(noted, dict) else None
        words = ["handful", "train", str(folder or "DEMOS"), "--out", str(self.path)]
        words += ["--step", step, *(["--resume"] if begun else [])]
        return f"{self.path}: {state}: {shlex.join(words)}"

    def predictors(self) -> dict[str, Predictor]:
        """The predictors of all steps, by name."""
        return {step.name: self.predictor(step.name) for step in self.task}

    def note(self, **entries: Any) -> None:
        """Add entries to `run.json`; entries that are objects are merged.

        Processes that train steps of one run note one after the other.
        """
        with exclusive(self.path / LOCK):
            content = self.summary() or {"format": FORMAT, "version": VERSION}
            for name, value in entries.items():
                old = content.get(name)
                if isinstance(old, dict) and isinstance(value, dict):
                    value = {**old, **value}
                content[name] = value
            atomic_write_text(self.path / SUMMARY, json.dumps(content, indent=2) + "\n")

    def holds(self, demos: DemoSet, recipe: Recipe) -> bool:
        """Whether the model that these demonstrations and this recipe lead to is there."""
        step = recipe.step.name
        mark = self.trained(step).get("fingerprint")
        return self.model(step).exists() and mark == fingerprint(demos, recipe)

    def curve(self, step: str) -> list[dict[str, Any]]:
        """The training log as it was written."""
        file = self.log(step)
        lines = file.read_text().splitlines() if file.is_file() else []
        return [json.loads(line) for line in lines]


def _task_from_json(value: Any, address: str) -> Task:
    items = value if isinstance(value, list) else []
    steps = []
    try:
        for index, item in enumerate(items):
            fields = Fields(item, f"{address}[{index}]", FileFormatError)
            steps.append(TaskStep(fields.text("name"), Action.named(fields.text("action"))))
            fields.done()
        return Task(tuple(steps))
    except HandfulError as error:
        raise FileFormatError(f"{address}: {error}") from error


def train_in_folder(
    demos: DemoSet,
    recipe: Recipe,
    folder: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    report: Callable[[StepReport], None] | None = None,
) -> Predictor:
    """Train one model of a run, so that nothing is lost when it is interrupted.

    Args:
        demos: What to learn from.
        recipe: What to train and how.
        folder: The run's folder; made when missing.
        resume: Go on from the checkpoint, if there is one; a finished model is just loaded.
        overwrite: Train anew where a model or a checkpoint is already there.
        report: Called after every step.
    """
    run = RunFolder(Path(folder))
    trainer = make_trainer(demos, recipe)
    step = recipe.step.name
    mark = fingerprint(demos, recipe)
    there = run.model(step).exists() or run.checkpoint(step).exists()
    if there and not (resume or overwrite):
        raise OptionError(
            f"{run.path}: the step {step!r} was begun there. Go on with --resume, begin anew with "
            "--overwrite, or name another folder."
        )
    if resume and run.model(step).exists():
        _check_same(run.trained(step).get("fingerprint"), mark, run.model(step))
        return load_predictor(run.model(step))
    spent = 0.0
    if resume and run.checkpoint(step).exists():
        spent = _resume(trainer, run.checkpoint(step), mark)
    if rank() != 0:
        trainer.run()
        return finish(trainer, demos, recipe)
    _make_folder(run.path)
    run.note(
        version=VERSION,
        handful=handful.__version__,
        torch=torch.__version__,
        python=platform.python_version(),
        steps=[{"name": one.name, "action": one.action.value} for one in demos.task],
    )
    keeper = _Keeper(run, step, trainer, mark, spent, report)
    try:
        trainer.run(keeper.step_done)
    finally:
        keeper.save()
    predictor = finish(trainer, demos, recipe)
    save_predictor(predictor, run.model(step))
    summary = {"seconds": round(keeper.seconds, 2), "fingerprint": mark, "skipped": trainer.skipped}
    more: dict[str, Any] = {"steps": trainer.done, "seed": recipe.training.seed}
    if not recipe.step.action.holding:
        more["separated"] = sum(example.separated for example in trainer.examples)
    run.note(models={step: {**summary, **more}})
    run.checkpoint(step).unlink()
    return predictor


def fingerprint(demos: DemoSet, recipe: Recipe) -> str:
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
        trainer: Trainer,
        mark: str,
        spent: float,
        report: Callable[[StepReport], None] | None,
    ) -> None:
        self._run, self._step, self._trainer, self._mark = run, step, trainer, mark
        self._report, self._spent = report, spent
        self._start = self._saved = time.monotonic()
        self._state = trainer.state()
        kept = run.curve(step)[: trainer.done] if trainer.done else []
        self._lines = [json.dumps(line) for line in kept]
        self._write_log()

    @property
    def seconds(self) -> float:
        """Time that training took, that before a resumption included."""
        return self._spent + time.monotonic() - self._start

    def step_done(self, report: StepReport) -> None:
        self._state = self._trainer.state()
        entry = {**asdict(report), "seconds": round(self.seconds, 3)}
        self._lines.append(json.dumps(entry))
        if time.monotonic() - self._saved > SECONDS_BETWEEN_CHECKPOINTS:
            self.save()
        if self._report is not None:
            self._report(report)

    def save(self) -> None:
        meta = {"fingerprint": self._mark, "seconds": str(self.seconds)}
        atomic_write_bytes(self._run.checkpoint(self._step), save(self._state, meta))
        self._write_log()
        self._saved = time.monotonic()

    def _write_log(self) -> None:
        text = "".join(f"{line}\n" for line in self._lines)
        atomic_write_text(self._run.log(self._step), text)


def _resume(trainer: Trainer, path: Path, mark: str) -> float:
    """Bring a trainer to a checkpoint's state; returns the seconds it has had."""
    tensors: dict[str, Tensor] = {}
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            _check_same(meta.get("fingerprint"), mark, path)
            for name in file.keys():  # noqa: SIM118 - not a dictionary
                tensors[name] = file.get_tensor(name)
        trainer.resume(tensors)
        return float(meta["seconds"])
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        raise FileFormatError(
            f"{path}: not a whole checkpoint ({error}): begin anew with --overwrite."
        ) from error


def _check_same(found: str | None, mark: str, path: Path) -> None:
    if found != mark:
        raise OptionError(
            f"{path}: was trained with other demonstrations or options: give the same ones, begin "
            "anew with --overwrite, or name another folder."
        )


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be made: {error.strerror}.") from error

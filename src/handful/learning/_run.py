"""A training run on disk: what was asked for, a log line a step, checkpoints, trained models.

RUN/run.json                     demonstrations, options, versions, seconds
RUN/pick.log.jsonl               one JSON object a training step
RUN/pick.checkpoint.safetensors  while training is under way
RUN/pick/                        the trained model; the same for `place`
"""

from __future__ import annotations

import hashlib
import json
import platform
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
from handful._files import atomic_write_bytes, atomic_write_text
from handful._strict_json import read_json
from handful.demos import DemoSet
from handful.errors import FileFormatError, OptionError
from handful.learning._recipes import Recipe
from handful.learning._train import finish, make_trainer
from handful.learning._trained import TrainedModel, load_model
from handful.learning._trainer import StepReport, Trainer, rank

SUMMARY = "run.json"
FORMAT = "handful-run"
VERSION = 1

SECONDS_BETWEEN_CHECKPOINTS = 20.0


@dataclass(frozen=True)
class RunFolder:
    """The files of one run.

    Attributes:
        path: The folder.
    """

    path: Path

    def model(self, kind: str) -> Path:
        """Folder of a trained model, `pick` or `place`."""
        return self.path / kind

    def log(self, kind: str) -> Path:
        """Its training log."""
        return self.path / f"{kind}.log.jsonl"

    def checkpoint(self, kind: str) -> Path:
        """Its checkpoint."""
        return self.path / f"{kind}.checkpoint.safetensors"

    def summary(self) -> dict[str, Any]:
        """What `run.json` holds; empty when there is none."""
        file = self.path / SUMMARY
        return read_json(file) if file.is_file() else {}

    def note(self, **entries: Any) -> None:
        """Add entries to `run.json`; entries that are objects are merged."""
        content = self.summary() or {"format": FORMAT, "version": VERSION}
        for name, value in entries.items():
            old = content.get(name)
            merged = (
                {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
            )
            content[name] = merged
        atomic_write_text(self.path / SUMMARY, json.dumps(content, indent=2) + "\n")

    def holds(self, demos: DemoSet, recipe: Recipe) -> bool:
        """Whether the model that these demonstrations and this recipe lead to is there."""
        kind = recipe.kind
        trained = self.summary().get(kind, {}).get("fingerprint")
        return self.model(kind).exists() and trained == fingerprint(demos, recipe)

    def curve(self, kind: str) -> list[dict[str, Any]]:
        """The training log as it was written."""
        file = self.log(kind)
        lines = file.read_text().splitlines() if file.is_file() else []
        return [json.loads(line) for line in lines]


def train_in_folder(
    demos: DemoSet,
    recipe: Recipe,
    folder: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    report: Callable[[StepReport], None] | None = None,
) -> TrainedModel:
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
    kind = recipe.kind
    mark = fingerprint(demos, recipe)
    there = run.model(kind).exists() or run.checkpoint(kind).exists()
    if there and not (resume or overwrite):
        raise OptionError(
            f"{run.path}: a {kind} model was begun there. Go on with --resume, begin anew with "
            "--overwrite, or name another folder."
        )
    if resume and run.model(kind).exists():
        _check_same(str(run.summary().get(kind, {}).get("fingerprint")), mark, run.model(kind))
        return load_model(run.model(kind))
    spent = 0.0
    if resume and run.checkpoint(kind).exists():
        spent = _resume(trainer, run.checkpoint(kind), mark)
    if rank() != 0:
        trainer.run()
        return finish(trainer, demos, recipe)
    _make_folder(run.path)
    run.note(handful=handful.__version__, torch=torch.__version__, python=platform.python_version())
    keeper = _Keeper(run, kind, trainer, mark, spent, report)
    try:
        trainer.run(keeper.step_done)
    finally:
        keeper.save()
    model = finish(trainer, demos, recipe)
    model.save(run.model(kind))
    summary = {"seconds": round(keeper.seconds, 2), "fingerprint": mark, "skipped": trainer.skipped}
    run.note(**{kind: {**summary, "steps": trainer.done, "seed": recipe.training.seed}})
    run.checkpoint(kind).unlink()
    return model


def fingerprint(demos: DemoSet, recipe: Recipe) -> str:
    """The same for the same demonstrations and recipe, and for no others."""
    digest = hashlib.sha256(repr(recipe).encode())
    digest.update(repr(demos.gripper).encode())
    for demo in demos:
        for step in demo.steps:
            digest.update(f"{demo.name} {step.name}".encode())
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
        kind: str,
        trainer: Trainer,
        mark: str,
        spent: float,
        report: Callable[[StepReport], None] | None,
    ) -> None:
        self._run, self._kind, self._trainer, self._mark = run, kind, trainer, mark
        self._report, self._spent = report, spent
        self._start = self._saved = time.monotonic()
        self._state = trainer.state()
        kept = run.curve(kind)[: trainer.done] if trainer.done else []
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
        atomic_write_bytes(self._run.checkpoint(self._kind), save(self._state, meta))
        self._write_log()
        self._saved = time.monotonic()

    def _write_log(self) -> None:
        text = "".join(f"{line}\n" for line in self._lines)
        atomic_write_text(self._run.log(self._kind), text)


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

"""Checkpoints of trainings, resumed for one step."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save

from fuzz.subject import Subject, raise_worst
from handful.demos import Action
from handful.learning._checkpoint import checkpoint_bytes, resume_from
from handful.learning._registry import method_named
from samples import small_demos
from small_training import small_recipe

_DEMOS = small_demos(1)
_MARK = "0" * 64


def _trainer(action: Action):
    recipe = small_recipe(action.value, action)
    return method_named(recipe.method).trainer(_DEMOS, recipe)


def _make(folder: Path) -> None:
    torch.manual_seed(0)
    for action in Action:
        trainer = _trainer(action)
        trainer.run(until=1)
        content = checkpoint_bytes(trainer.state(), _MARK, 1.5)
        (folder / f"{action.value}.checkpoint.safetensors").write_bytes(content)


def _unseal(folder: Path, rng: random.Random) -> None:
    """Most checkpoints lose their digests, so that what is spoiled is read at all."""
    if rng.random() < 0.8:
        for path in folder.glob("*.checkpoint.safetensors"):
            with safe_open(path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                meta = file.metadata()
            meta.pop("digest")
            path.write_bytes(save(tensors, meta))


def _read(folder: Path) -> None:
    errors = []
    for action in Action:
        try:
            trainer = _trainer(action)
            resume_from(trainer, folder / f"{action.value}.checkpoint.safetensors", _MARK)
            trainer.run(until=trainer.done + 1)
        except Exception as error:
            errors.append(error)
    raise_worst(errors)


CHECKPOINTS = {"checkpoint": Subject(_make, _read, 1.0, 60.0, _unseal)}

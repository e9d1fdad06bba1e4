"""Predictors on disk: the model's folder with one more file, `use.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handful._checks import path_of
from handful._strict_json import Fields, read_json
from handful.demos import Action, Gripper, TaskStep, gripper_from_tip
from handful.errors import DemoError, FileFormatError
from handful.models import USE, config_from_json, config_to_json, load_model, save_model
from handful.policy._confidence import Confidence
from handful.policy._crossings import Crossings
from handful.policy._predictor import Predictor
from handful.policy._preparation import Preparation
from handful.policy._search import SearchConfig
from handful.policy._unlike import CloudStatistics

FORMAT = "handful-trained-model"
VERSION = 2


def save_predictor(predictor: Predictor, folder: str | Path) -> Path:
    """Write a predictor to a folder, which is replaced whole or not at all.

    The gripper of the demonstrations is written, not the one it was retargeted to.
    """
    content = {
        "format": FORMAT,
        "version": VERSION,
        "step": {"name": predictor.step.name, "action": predictor.step.action.value},
        "gripper": config_to_json(predictor.trained_gripper),
        "preparation": config_to_json(predictor.preparation),
        "search": config_to_json(predictor.search),
        "confidence": config_to_json(predictor.confidence),
    }
    if predictor.trained_on is not None:
        content["trained_on"] = config_to_json(predictor.trained_on)
    if predictor.model.holding:
        content["crossings"] = config_to_json(predictor.crossings)
    return save_model(predictor.model, folder, {USE: json.dumps(content, indent=2) + "\n"})


def load_predictor(folder: str | Path) -> Predictor:
    """Read what `save_predictor` wrote, or what version 1 of this software did.

    Raises:
        FileFormatError: Something is missing or wrong; the message names the file and the field.
    """
    path = path_of("folder", folder) / USE
    model = load_model(folder)
    if not path.is_file():
        raise FileFormatError(f"{path}: is missing: nobody trained the model in this folder.")
    fields = Fields(read_json(path), str(path), FileFormatError)
    name, version = fields.text("format"), fields.integer("version")
    if name != FORMAT or version not in (1, VERSION):
        raise FileFormatError(f"{path}: need format {FORMAT!r}, version 1 or {VERSION}.")
    confidence = _part(Confidence, fields, "confidence")
    known = fields.has("trained_on")
    trained_on = _part(CloudStatistics, fields, "trained_on") if known else None
    shown = fields.has("crossings")
    crossings = _part(Crossings, fields, "crossings") if shown else Crossings()
    if version == 1:
        action = Action.PLACE if model.holding else Action.PICK
        step = TaskStep(action.value, action)
        gripper = _gripper_of_version_1(fields)
        preparation, search = _search_of_version_1(fields)
    else:
        step = step_from_json(fields.any("step"), f"{path}: step")
        gripper = _part(Gripper, fields, "gripper")
        preparation = _part(Preparation, fields, "preparation")
        search = _part(SearchConfig, fields, "search")
    fields.done()
    if step.action.holding != model.holding:
        raise FileFormatError(
            f"{path}: the step's action is {step.action.value!r}, and the model beside it is for "
            f"{'a full' if model.holding else 'an empty'} gripper: the files are of two models."
        )
    return Predictor(
        step, model, gripper, preparation, search, confidence, trained_on=trained_on,
        crossings=crossings,
    )  # fmt: skip


def _part(kind: Any, fields: Fields, name: str) -> Any:
    return config_from_json(kind, fields.any(name), f"{fields.address}: {name}")


def step_from_json(value: Any, address: str) -> TaskStep:
    """Name and action of a step.

    Args:
        value: An object with `name` and `action`.
        address: Of it, for messages.

    Raises:
        FileFormatError: It is something else.
    """
    values = Fields(value, address, FileFormatError)
    name, action = values.text("name"), values.text("action")
    values.done()
    try:
        return TaskStep(name, Action.named(action))
    except DemoError as error:
        raise FileFormatError(f"{address}: {error}") from error


@dataclass(frozen=True)
class _Tip:
    """The gripper of version 1."""

    tip: float
    opening: float
    axis: str


def _gripper_of_version_1(fields: Fields) -> Gripper:
    old = _part(_Tip, fields, "gripper")
    try:
        return gripper_from_tip(old.tip, old.opening, old.axis)
    except DemoError as error:
        raise FileFormatError(f"{fields.address}: gripper: {error}") from error


def _search_of_version_1(fields: Fields) -> tuple[Preparation, SearchConfig]:
    """Version 1 kept the voxel sizes among the options of the search."""
    address, old = f"{fields.address}: search", fields.any("search")
    if not isinstance(old, dict):
        raise FileFormatError(f"{address}: need an object with fields.")
    names = ("scene_voxel", "grasp_voxel")
    sizes = {name: value for name, value in old.items() if name in names}
    rest = {name: value for name, value in old.items() if name not in names}
    return (
        config_from_json(Preparation, sizes, address),
        config_from_json(SearchConfig, rest, address),
    )

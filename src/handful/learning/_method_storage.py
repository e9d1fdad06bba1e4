"""Trained models of any method on disk: a JSON configuration and safetensors weights.

Models of the paper's method have a format of their own (`handful.models`); the file that tells
which it is, `config.json`, has the same name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from safetensors.torch import save
from torch import Tensor, nn

from handful._files import atomic_write_bytes, atomic_write_text, read_bytes, staged_folder
from handful._strict_json import Fields, read_json
from handful.demos import Gripper, TaskStep
from handful.errors import FileFormatError
from handful.models import (
    MAX_MODEL_BYTES,
    checked_weights,
    config_from_json,
    config_to_json,
    digest_of,
    no_model,
)
from handful.policy import step_from_json

FORMAT = "handful-method"
VERSION = 1
CONFIG = "config.json"
WEIGHTS = "weights.safetensors"
EDF = "edf"
"""The method of models whose configuration does not name one."""

_OWN = "content"
"""Under this name stands the digest of the configuration itself."""

Config = TypeVar("Config")


@dataclass(frozen=True)
class StoredModel(Generic[Config]):
    """All that using a model needs besides its weights.

    Attributes:
        step: Name and action of the step.
        gripper: Of the demonstrations.
        config: The method's own, a frozen dataclass.
    """

    step: TaskStep
    gripper: Gripper
    config: Config


def save_parts(folder: str | Path, method: str, stored: StoredModel[Any], model: nn.Module) -> Path:
    """Write a model of a method to a folder, which is replaced whole or not at all.

    Args:
        folder: Where to.
        method: Name of the method.
        stored: What using the model needs.
        model: Its weights are written.
    """
    target = Path(folder)
    if target.is_dir() and any(target.iterdir()) and not (target / CONFIG).is_file():
        raise FileFormatError(f"{target}: is not empty and holds no model: name another folder.")
    weights = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    data = save(weights)
    values = {
        "step": {"name": stored.step.name, "action": stored.step.action.value},
        "gripper": config_to_json(stored.gripper),
        "config": config_to_json(stored.config),
    }
    content = {
        "format": FORMAT,
        "version": VERSION,
        "method": method,
        **values,
        "digests": {_OWN: digest_of(_canonical(values)), WEIGHTS: digest_of(data)},
    }
    with staged_folder(target) as staging:
        atomic_write_bytes(staging / WEIGHTS, data)
        atomic_write_text(staging / CONFIG, json.dumps(content, indent=2) + "\n")
    return target


def read_parts(folder: str | Path, method: str, kind: type[Config]) -> StoredModel[Config]:
    """What `save_parts` wrote, but for the weights; both files must be as they were saved.

    Args:
        folder: Of the model.
        method: Name of the method.
        kind: The dataclass of the method's own configuration.

    Raises:
        FileFormatError: Something is missing, wrong or changed; the message names the file.
    """
    path = Path(folder)
    fields, named = _fields(path)
    if named != method:
        raise FileFormatError(f"{fields.address}: is of the method {named!r}: need {method!r}.")
    values = {name: fields.any(name) for name in ("step", "gripper", "config")}
    if fields.has("digests"):
        _check_digests(fields, values, path)
    fields.done()
    return StoredModel(
        step_from_json(values["step"], f"{fields.address}: step"),
        config_from_json(Gripper, values["gripper"], f"{fields.address}: gripper"),
        config_from_json(kind, values["config"], f"{fields.address}: config"),
    )


def _check_digests(fields: Fields, values: dict[str, Any], path: Path) -> None:
    """Refuse files that are not as they were saved."""
    digests = Fields(fields.any("digests"), f"{fields.address}: digests", FileFormatError)
    found = {
        _OWN: (path / CONFIG, digest_of(_canonical(values))),
        WEIGHTS: (path / WEIGHTS, digest_of(read_bytes(path / WEIGHTS, MAX_MODEL_BYTES))),
    }
    for name, (file, digest) in found.items():
        if digests.text(name, longest=100) != digest:
            raise FileFormatError(
                f"{file}: is not as it was saved (its SHA-256 digest differs): copy the model "
                "again, or train it again. If you changed it on purpose, take the field 'digests' "
                f"out of {path / CONFIG}."
            )
    digests.done()


def read_weights(folder: str | Path, model: nn.Module) -> None:
    """Give a model the weights that `save_parts` wrote, ready for use.

    Raises:
        FileFormatError: They are others, of other sizes, or not finite.
    """
    expected: dict[str, Tensor] = model.state_dict()
    model.load_state_dict(checked_weights(Path(folder) / WEIGHTS, expected))
    model.eval()


def method_in(folder: str | Path) -> str:
    """Name of the method whose model a folder holds.

    Raises:
        FileFormatError: There is no model there.
    """
    path = Path(folder)
    if not (path / CONFIG).is_file():
        raise no_model(path)
    content = read_json(path / CONFIG)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return EDF  # whose reader says what is wrong with anything else
    return _fields(path)[1]


def _fields(path: Path) -> tuple[Fields, str]:
    """The fields of a configuration whose format is right, and the name of the method."""
    address = str(path / CONFIG)
    if not (path / CONFIG).is_file():
        raise no_model(path)
    fields = Fields(read_json(path / CONFIG), address, FileFormatError)
    name, version = fields.text("format"), fields.integer("version")
    if name != FORMAT or version != VERSION:
        raise FileFormatError(f"{address}: need format {FORMAT!r}, version {VERSION}.")
    return fields, fields.text("method", longest=100)


def _canonical(values: Any) -> bytes:
    """A configuration as bytes that do not depend on spaces and the order of fields."""
    return json.dumps(values, sort_keys=True).encode()

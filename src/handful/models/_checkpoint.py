"""Models on disk: a folder with a JSON configuration and safetensors weights; never a pickle."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from handful._files import atomic_write_bytes, atomic_write_text, staged_folder
from handful._strict_json import Fields, read_json
from handful.errors import FileFormatError, unknown_name_message
from handful.models._config import config_from_json, config_to_json
from handful.models._pick import PickConfig, PickModel
from handful.models._place import PlaceConfig, PlaceModel

FORMAT = "handful-model"
VERSION = 1
CONFIG = "config.json"
WEIGHTS = "weights.safetensors"

Model = PickModel | PlaceModel


def save_model(model: Model, folder: str | Path, notes: dict[str, str] | None = None) -> Path:
    """Write a model to a folder, which is replaced whole or not at all.

    Args:
        model: What to write.
        folder: Where to.
        notes: More text files for the folder, by name.
    """
    target = Path(folder)
    if target.is_dir() and any(target.iterdir()) and not (target / CONFIG).is_file():
        raise FileFormatError(f"{target}: is not empty and holds no model: name another folder.")
    weights = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    content = {
        "format": FORMAT,
        "version": VERSION,
        "kind": model.kind,
        "config": config_to_json(model.config),
    }
    with staged_folder(target) as staging:
        atomic_write_bytes(staging / WEIGHTS, save(weights))
        atomic_write_text(staging / CONFIG, json.dumps(content, indent=2) + "\n")
        for name, text in (notes or {}).items():
            atomic_write_text(staging / name, text)
    return target


def load_model(folder: str | Path) -> Model:
    """Read a model, ready for inference; whatever does not fit its configuration is an error."""
    path = Path(folder)
    if not (path / CONFIG).is_file():
        raise FileFormatError(f"{path}: no {CONFIG} there: give the folder of a saved model.")
    address = str(path / CONFIG)
    fields = Fields(read_json(path / CONFIG), address, FileFormatError)
    if (fields.text("format"), fields.integer("version")) != (FORMAT, VERSION):
        raise FileFormatError(f"{address}: need format {FORMAT!r}, version {VERSION}.")
    kind, config = fields.text("kind"), fields.any("config")
    fields.done()
    model: Model
    if kind == PickModel.kind:
        model = PickModel(config_from_json(PickConfig, config, f"{address}: config"))
    elif kind == PlaceModel.kind:
        model = PlaceModel(config_from_json(PlaceConfig, config, f"{address}: config"))
    else:
        kinds = (PickModel.kind, PlaceModel.kind)
        raise FileFormatError(f"{address}: {unknown_name_message('kind of model', kind, kinds)}")
    _load_weights(model, path / WEIGHTS)
    return model.eval()


def _load_weights(model: Model, path: Path) -> None:
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise FileFormatError(f"{path}: not readable weights: {error}") from error
    expected = model.state_dict()
    for name in sorted(expected.keys() ^ weights.keys()):
        where = "is missing" if name in expected else "does not belong there"
        raise FileFormatError(f"{path}: tensor {name!r} {where}.")
    for name, value in weights.items():
        _check_tensor(path, name, value, expected[name])
    model.load_state_dict(weights)


def _check_tensor(path: Path, name: str, value: Tensor, expected: Tensor) -> None:
    if value.shape != expected.shape or value.dtype != expected.dtype:
        raise FileFormatError(
            f"{path}: tensor {name!r} is {value.dtype} {list(value.shape)}: need {expected.dtype} "
            f"{list(expected.shape)}."
        )
    if not torch.isfinite(value).all():
        raise FileFormatError(f"{path}: tensor {name!r} holds NaN or infinity.")

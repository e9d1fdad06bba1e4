"""Models on disk: a folder with a JSON configuration and safetensors weights; never a pickle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from handful._files import atomic_write_bytes, atomic_write_text, staged_folder
from handful._strict_json import Fields, read_json
from handful.errors import FileFormatError, OptionError, unknown_name_message
from handful.models._config import config_from_json, config_to_json
from handful.models._field import EncoderConfig
from handful.models._grasp_queries import GraspQueryConfig
from handful.models._learned_queries import LearnedQueryConfig
from handful.models._model import EdfModel, ModelConfig

FORMAT = "handful-model"
VERSION = 2
CONFIG = "config.json"
WEIGHTS = "weights.safetensors"


def save_model(model: EdfModel, folder: str | Path, notes: dict[str, str] | None = None) -> Path:
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
        "config": config_to_json(model.config),
    }
    with staged_folder(target) as staging:
        atomic_write_bytes(staging / WEIGHTS, save(weights))
        atomic_write_text(staging / CONFIG, json.dumps(content, indent=2) + "\n")
        for name, text in (notes or {}).items():
            atomic_write_text(staging / name, text)
    return target


def load_model(folder: str | Path) -> EdfModel:
    """Read a model, ready for inference; whatever does not fit its configuration is an error.

    Models of version 1, which had a configuration of its own for each of two kinds, are read too.
    """
    path = Path(folder)
    if not (path / CONFIG).is_file():
        raise FileFormatError(f"{path}: no {CONFIG} there: give the folder of a saved model.")
    address = str(path / CONFIG)
    fields = Fields(read_json(path / CONFIG), address, FileFormatError)
    name, version = fields.text("format"), fields.integer("version")
    if name != FORMAT or version not in (1, VERSION):
        raise FileFormatError(f"{address}: need format {FORMAT!r}, version 1 or {VERSION}.")
    read = _config_of_version_1 if version == 1 else _config
    try:
        model = EdfModel(read(fields, f"{address}: config"))
    except OptionError as error:  # of fields that are right each by itself, and not together
        raise FileFormatError(f"{address}: config: {error}") from error
    fields.done()
    _load_weights(model, path / WEIGHTS)
    return model.eval()


def _config(fields: Fields, address: str) -> ModelConfig:
    return config_from_json(ModelConfig, fields.any("config"), address)


def _config_of_version_1(fields: Fields, address: str) -> ModelConfig:
    """The configuration of a pick model or a place model, as version 1 called them."""
    kind, config = fields.text("kind"), fields.any("config")
    if kind == "pick":
        pick = config_from_json(_PickConfig, config, address)
        learned = LearnedQueryConfig(pick.query_positions, pick.learn_positions)
        return ModelConfig(pick.encoder, pick.descriptor, learned, None, pick.norm,
                           pick.temperature)  # fmt: skip
    if kind == "place":
        place = config_from_json(_PlaceConfig, config, address)
        drawn = place.queries
        grasp = GraspQueryConfig(
            place.grasp_encoder, place.strongest, drawn.count, drawn.cluster_radius, drawn.steps,
            drawn.step_size, drawn.unit,
        )  # fmt: skip
        return ModelConfig(place.scene_encoder, place.descriptor, None, grasp, place.norm,
                           place.temperature)  # fmt: skip
    kinds = ("pick", "place")
    raise FileFormatError(f"{address}: {unknown_name_message('kind of model', kind, kinds)}")


@dataclass(frozen=True)
class _PickConfig:
    """A pick model of version 1."""

    encoder: EncoderConfig
    descriptor: tuple[int, ...]
    query_positions: tuple[tuple[float, ...], ...]
    learn_positions: bool
    norm: str
    temperature: float


@dataclass(frozen=True)
class _Draw:
    """How a place model of version 1 drew its query points."""

    count: int
    cluster_radius: float
    steps: int
    step_size: float
    unit: float


@dataclass(frozen=True)
class _PlaceConfig:
    """A place model of version 1."""

    scene_encoder: EncoderConfig
    grasp_encoder: EncoderConfig
    descriptor: tuple[int, ...]
    queries: _Draw
    strongest: int
    norm: str
    temperature: float


def _load_weights(model: EdfModel, path: Path) -> None:
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

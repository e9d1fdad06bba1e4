"""Models on disk: a folder with a JSON configuration and safetensors weights; never a pickle."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from handful._files import atomic_write_bytes, atomic_write_text, read_bytes, staged_folder
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
USE = "use.json"
"""What a predictor adds to its model's folder (`handful.policy`)."""
SAVED_FILES = (WEIGHTS, USE)
"""Files beside the configuration whose digests it holds."""
MAX_MODEL_BYTES = 512 * 2**20
_OWN = "config"
"""Under this name stands the digest of the configuration itself."""


def save_model(model: EdfModel, folder: str | Path, notes: dict[str, str] | None = None) -> Path:
    """Write a model to a folder, which is replaced whole or not at all.

    Args:
        model: What to write.
        folder: Where to.
        notes: More text files for the folder, by name; of those in `SAVED_FILES`.
    """
    target = Path(folder)
    if target.is_dir() and any(target.iterdir()) and not (target / CONFIG).is_file():
        raise FileFormatError(f"{target}: is not empty and holds no model: name another folder.")
    weights = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    files = {name: text.encode() for name, text in (notes or {}).items()}
    files[WEIGHTS] = save(weights)
    config = config_to_json(model.config)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "config": config,
        "digests": {
            _OWN: digest_of(_canonical(config)),
            **{name: digest_of(data) for name, data in files.items()},
        },
    }
    with staged_folder(target) as staging:
        for name, data in files.items():
            atomic_write_bytes(staging / name, data)
        atomic_write_text(staging / CONFIG, json.dumps(content, indent=2) + "\n")
    return target


def no_model(path: Path) -> FileFormatError:
    """The error of a folder that holds no model: what is there instead, and what to give."""
    give = f"no {CONFIG} there: give the folder of a saved model"
    if not path.exists():
        return FileFormatError(
            f"{path}: there is no such folder; give the folder of a saved model."
        )
    if (path / "run.json").is_file():
        models = sorted(one.parent.name for one in path.glob(f"*/{CONFIG}"))
        which = ", ".join(repr(str(path / name)) for name in models) or "and it has none yet"
        return FileFormatError(f"{path}: is a run of `handful train`; {give} in it: {which}.")
    if (path / "demos.json").is_file():
        return FileFormatError(
            f"{path}: is a demonstration folder; {give} that `handful train` has made from it."
        )
    return FileFormatError(f"{path}: {give}.")


def load_model(folder: str | Path) -> EdfModel:
    """Read a model, ready for inference; whatever does not fit its configuration is an error.

    Models of version 1, which had a configuration of its own for each of two kinds, are read too.
    Every file whose digest the configuration holds must be as it was saved. Models of before, which
    have no digests, are read without that check.

    Raises:
        FileFormatError: Something is missing, wrong or changed; the message names the file.
    """
    path = Path(folder)
    if not (path / CONFIG).is_file():
        raise no_model(path)
    address = str(path / CONFIG)
    fields = Fields(read_json(path / CONFIG), address, FileFormatError)
    name, version = fields.text("format"), fields.integer("version")
    if name != FORMAT or version not in (1, VERSION):
        raise FileFormatError(f"{address}: need format {FORMAT!r}, version 1 or {VERSION}.")
    read = _config_of_version_1 if version == 1 else _config
    _check_digests(fields, path)
    try:
        config = read(fields, f"{address}: config")
        fields.done()
        model = EdfModel(config)
    except OptionError as error:  # of fields that are right each by itself, and not together
        raise FileFormatError(f"{address}: config: {error}") from error
    model.load_state_dict(checked_weights(path / WEIGHTS, model.state_dict()))
    return model.eval()


def _check_digests(fields: Fields, folder: Path) -> None:
    """Refuse files that are not as they were saved: flipped bits, cut copies, mixed models."""
    if not fields.has("digests"):
        return
    digests = Fields(fields.any("digests"), f"{fields.address}: digests", FileFormatError)
    found = {_OWN: digest_of(_canonical(fields.any("config")))}
    for name in SAVED_FILES:
        if digests.has(name):
            found[name] = digest_of(read_bytes(folder / name, MAX_MODEL_BYTES))
    for name, digest in found.items():
        if digests.text(name, longest=100) != digest:
            file = folder / (CONFIG if name == _OWN else name)
            raise FileFormatError(
                f"{file}: is not as it was saved (its SHA-256 digest differs): copy the model "
                f"again, or train it again. If you changed it on purpose, take the field 'digests' "
                f"out of {folder / CONFIG}."
            )
    digests.done()


def _canonical(config: Any) -> bytes:
    """A configuration as bytes that do not depend on spaces and the order of fields."""
    return json.dumps(config, sort_keys=True).encode()


def digest_of(data: bytes) -> str:
    """The SHA-256 digest of a file's content, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


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


def checked_weights(path: Path, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file, which are those expected.

    Raises:
        FileFormatError: They are others, of other sizes, or not finite.
    """
    try:
        weights = load(read_bytes(path, MAX_MODEL_BYTES))
    except SafetensorError as error:
        raise FileFormatError(f"{path}: not readable weights: {error}") from error
    for name in sorted(expected.keys() ^ weights.keys()):
        where = "is missing" if name in expected else "does not belong there"
        raise FileFormatError(f"{path}: tensor {name!r} {where}.")
    for name, value in weights.items():
        _check_tensor(path, name, value, expected[name])
    return weights


def _check_tensor(path: Path, name: str, value: Tensor, expected: Tensor) -> None:
    if value.shape != expected.shape or value.dtype != expected.dtype:
        raise FileFormatError(
            f"{path}: tensor {name!r} is {value.dtype} {list(value.shape)}: need {expected.dtype} "
            f"{list(expected.shape)}."
        )
    if not torch.isfinite(value).all():
        raise FileFormatError(f"{path}: tensor {name!r} holds NaN or infinity.")

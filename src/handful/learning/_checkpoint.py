"""Checkpoints of trainings: files of tensors that may be damaged or of another training."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from handful._files import check_regular
from handful.errors import FileFormatError, OptionError
from handful.learning._method import StepTrainer
from handful.learning._run_json import MAX_SECONDS
from handful.models import digest_of

_FIELDS = ("fingerprint", "seconds", "digest")
"""What a checkpoint says besides its tensors."""
_MOST_WORDS = 2**20
"""Bytes of these and of the tensors' names and shapes."""


def checkpoint_bytes(tensors: dict[str, Tensor], mark: str, seconds: float) -> bytes:
    """The content of a checkpoint.

    Args:
        tensors: The state of a trainer.
        mark: Fingerprint of demonstrations and options.
        seconds: Of training so far.
    """
    meta = {"fingerprint": mark, "seconds": str(seconds)}
    return save(tensors, meta | {"digest": _digest(tensors, meta)})


def resume_from(trainer: StepTrainer, path: Path, mark: str) -> float:
    """Bring a trainer to a checkpoint's state.

    Args:
        trainer: With the same options as the one that wrote the checkpoint.
        path: The checkpoint.
        mark: Fingerprint of demonstrations and options.

    Returns:
        Seconds of training up to the checkpoint.

    Raises:
        FileFormatError: It is damaged, or no regular file.
        OptionError: It belongs to other demonstrations or options.
    """
    check_regular(path)
    state = trainer.state()
    _check_size(path, state)
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise _damaged(path, error) from error
    check_same(meta.get("fingerprint"), mark, path)
    try:
        _check_whole(tensors, meta)
        _check_like(tensors, state)
        trainer.resume(tensors)
        seconds = float(meta["seconds"])
        if not 0.0 <= seconds <= MAX_SECONDS:
            raise ValueError(f"it says {seconds} seconds")
    except (KeyError, ValueError, RuntimeError) as error:
        raise _damaged(path, error) from error
    return seconds


def check_same(found: str | None, mark: str, path: Path) -> None:
    """Refuse what was trained with other demonstrations or options.

    Args:
        found: The fingerprint that is noted there.
        mark: The fingerprint of what is asked for.
        path: For the message.
    """
    if found != mark:
        raise OptionError(
            f"{path}: was trained with other demonstrations or options: give the same ones, begin "
            "anew with --overwrite, or name another folder."
        )


def _digest(tensors: dict[str, Tensor], meta: dict[str, str]) -> str:
    """SHA-256 of all that a checkpoint holds but the digest itself."""
    said = f"{meta['fingerprint']} {meta['seconds']} ".encode()
    return digest_of(said + save(tensors))


def _check_size(path: Path, state: dict[str, Tensor]) -> None:
    """Refuse what is too large for the trainer before anything of it is read."""
    most = sum(value.nbytes for value in state.values()) + _MOST_WORDS
    size = path.stat().st_size
    if size > most:
        raise _damaged(path, ValueError(f"it has {size:,} bytes: need at most {most:,}"))


def _check_whole(tensors: dict[str, Tensor], meta: dict[str, str]) -> None:
    """Refuse what differs from what was written; a checkpoint of before has no digest."""
    for field in meta:
        if field not in _FIELDS:
            raise ValueError(f"it has an unknown field {field[:100]!r}: need {', '.join(_FIELDS)}")
    if "digest" in meta and meta["digest"] != _digest(tensors, meta):
        raise ValueError("the SHA-256 digest of its content is not the one that stands in it")


def _check_like(tensors: dict[str, Tensor], state: dict[str, Tensor]) -> None:
    """Refuse tensors that the trainer does not have, or has of another shape or type."""
    for name, value in tensors.items():
        if name not in state:
            raise ValueError(f"it has an unknown tensor {name[:100]!r}")
        own = state[name]
        if value.shape != own.shape or value.dtype != own.dtype:
            raise ValueError(
                f"{name} is {value.dtype} {list(value.shape)}: need {own.dtype} {list(own.shape)}"
            )


def _damaged(path: Path, error: Exception) -> FileFormatError:
    return FileFormatError(
        f"{path}: not a whole checkpoint ({error}): begin anew with --overwrite."
    )

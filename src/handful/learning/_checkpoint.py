"""Checkpoints of trainings, read: a file of tensors that may be damaged or of another training."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from handful._files import check_regular
from handful.errors import FileFormatError, OptionError
from handful.learning._method import StepTrainer
from handful.learning._run_json import MAX_SECONDS


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
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise _damaged(path, error) from error
    check_same(meta.get("fingerprint"), mark, path)
    try:
        _check_like(tensors, trainer.state())
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

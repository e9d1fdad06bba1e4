"""Methods by name: ours, and those of installed packages (entry points `handful.methods`)."""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from handful.errors import FileFormatError, OptionError, unknown_name_message
from handful.learning._method import AnyMethod, Method
from handful.learning._method_storage import CONFIG, method_in
from handful.policy import Predictor, TrainedPredictor

GROUP = "handful.methods"
"""Entry points of this group name a `Method` each: `my-method = "my_package:MY_METHOD"`."""

OURS = {
    "edf": "handful.learning._edf:EDF",
    "edf-type0": "handful.learning._edf:EDF_TYPE0",
    "transporter": "handful.baselines.transporter:TRANSPORTER",
    "ndf": "handful.baselines.ndf:NDF",
}
"""Where our own methods are; they are loaded when they are asked for."""


def method_names() -> tuple[str, ...]:
    """Names of all methods: ours first, then those of other packages."""
    others = sorted(one.name for one in _others() if one.name not in OURS)
    return (*OURS, *dict.fromkeys(others))


def method_named(name: str) -> AnyMethod:
    """The method of a name. A name of ours means ours, whatever else is installed.

    Raises:
        OptionError: There is none, or the package that brings it does not work.
    """
    if name in OURS:
        module, _, attribute = OURS[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    found = [one for one in _others() if one.name == name]
    if not found:
        raise OptionError(unknown_name_message("method", name, method_names()))
    return _loaded(found[0])


def method_of(folder: str | Path) -> AnyMethod:
    """The method that trained the model in a folder.

    Raises:
        FileFormatError: There is no model there, or one of a method that is not installed.
    """
    name = method_in(folder)
    try:
        return method_named(name)
    except OptionError as error:
        raise FileFormatError(
            f"{Path(folder) / CONFIG}: {error} Install the package that brings the method."
        ) from error


def load_trained(folder: str | Path) -> TrainedPredictor:
    """The predictor in a folder, whatever method trained it.

    Raises:
        FileFormatError: Something is missing or wrong; the message names the file.
    """
    return method_of(folder).load(Path(folder))


def only_edf(predictor: TrainedPredictor, purpose: str) -> Predictor:
    """The predictor, if it is one with a descriptor field.

    Args:
        predictor: Of any method.
        purpose: What it is wanted for, for the message.

    Raises:
        OptionError: It is another method's.
    """
    if not isinstance(predictor, Predictor):
        raise OptionError(
            f"the model of the step {predictor.step.name!r} was trained by another method than "
            f"edf: {purpose} needs models of edf. Use `handful infer` or `handful bench` with it."
        )
    return predictor


def _others() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _loaded(entry: EntryPoint) -> AnyMethod:
    where = f"method {entry.name!r} (entry point {entry.value!r})"
    try:
        method = entry.load()
    except Exception as error:  # whatever another package does when it is imported
        raise OptionError(
            f"{where}: cannot be loaded ({type(error).__name__}: {error}): mend or remove the "
            "package that brings it."
        ) from error
    if not isinstance(method, Method) or method.name != entry.name:
        raise OptionError(f"{where}: need an object of a class of `learning.Method` of that name.")
    return method

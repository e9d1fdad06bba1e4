"""Ranges of the numbers that callers give: one check for each, from the command line or Python."""

from __future__ import annotations

import numbers
import operator
import os
from pathlib import Path
from typing import Any

from handful.errors import OptionError

MAX_SEED = 2**32 - 1
"""Largest seed that people give; seeds that are derived from it are larger."""
MAX_DERIVED_SEED = 2**63 - 1
"""What every generator of random numbers that is used here takes."""
MAX_TRAINING_STEPS = 1_000_000
"""Most optimiser steps: more than a day at a tenth of a second each."""
MAX_POSES = 100_000
"""Most poses that are asked for at once."""


def whole_number(name: str, value: Any, low: int, high: int) -> int:
    """A whole number from `low` to `high`.

    Args:
        name: What the message calls it.
        value: What the caller gave; integers of numpy are whole numbers, true and false are not.
        low: Least value.
        high: Largest value.

    Raises:
        OptionError: It is something else.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise OptionError(f"{name} is {shown(value)}: need a whole number, {low} to {high}.")
    try:
        number = operator.index(value)
    except TypeError as error:  # of an array of several numbers
        raise OptionError(f"{name} is {shown(value)}: need one whole number.") from error
    if not low <= number <= high:
        raise OptionError(f"{name} is {shown(number)}: need {low} to {high}.")
    return number


def real_number(name: str, value: Any, low: float, high: float) -> float:
    """A finite number from `low` to `high`.

    Raises:
        OptionError: It is something else.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise OptionError(f"{name} is {shown(value)}: need a number, {low:g} to {high:g}.")
    given: Any = value
    if not low <= given <= high:  # before it is converted: whole numbers may be too large
        raise OptionError(f"{name} is {shown(value)}: need {low:g} to {high:g}.")
    return float(given)


def check_seed(value: Any, most: int = MAX_SEED) -> int:
    """A seed.

    Raises:
        OptionError: It is no whole number from 0 to `most`.
    """
    return whole_number("seed", value, 0, most)


def check_scale(value: Any) -> float:
    """Metres per unit of a file.

    Raises:
        OptionError: It is no number that a unit of length has in metres.
    """
    try:
        return real_number("scale", value, 1e-9, 1e9)
    except OptionError as error:
        raise OptionError(f"{error} 0.001 is for millimetres.") from error


def path_of(name: str, value: Any) -> Path:
    """A path.

    Raises:
        OptionError: It is neither text nor a path.
    """
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise OptionError(f"{name} is {shown(value)}: need a path, as text or a pathlib.Path.")
    return Path(value)


def shown(value: Any) -> str:
    """A value for a message, cut off where it is long."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:77]}..."

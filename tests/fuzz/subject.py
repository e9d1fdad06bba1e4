"""What one thing that is fuzzed consists of."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handful.errors import HandfulError


@dataclass(frozen=True)
class Subject:
    """A reader.

    Attributes:
        make: Writes a right input into a folder.
        read: Reads the folder; writes, if at all, into its folder `out`.
        weight: How often it is chosen.
        seconds: Of computing that a case may take.
        prepare: Changes the input before it is spoiled, now and then.
    """

    make: Callable[[Path], Any]
    read: Callable[[Path], Any]
    weight: float = 1.0
    seconds: float = 15.0
    prepare: Callable[[Path, random.Random], None] | None = None


def raise_worst(errors: list[Exception]) -> None:
    """Of several errors, one that should not be."""
    for error in sorted(errors, key=lambda one: isinstance(one, HandfulError)):
        raise error


def unseal(folder: Path, rng: random.Random) -> None:
    """Most models lose their digests, so that what is spoiled is read at all."""
    if rng.random() < 0.8:
        for path in folder.glob("*/config.json"):
            content = json.loads(path.read_text())
            content.pop("digests", None)
            path.write_text(json.dumps(content))

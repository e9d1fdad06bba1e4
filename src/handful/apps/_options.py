"""Options that several commands have, each with its range in one place; and statuses at the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from handful._checks import MAX_SEED, MAX_TRAINING_STEPS
from handful.apps._listening import TOKEN_VARIABLE
from handful.errors import OptionError

DONE, FAILED, WRONG_USE, NOTHING_FOUND, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit statuses of every command; docs/commands.md says what each means."""

Seed = Annotated[
    int, typer.Option(min=0, max=MAX_SEED, help="The same seed gives the same result.")
]
TrainingSteps = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MAX_TRAINING_STEPS,
        help="Optimiser steps, instead of the preset's: fewer for a quick look.",
    ),
]
FirstEpisode = Annotated[
    int,
    typer.Option(
        min=0,
        max=MAX_SEED,
        help="Seed of the first episode. 10000 and up are kept for evaluation.",
    ),
]


def processes_of_torchrun() -> int:
    """How many processes `torchrun` started to train together; 1 without it.

    Raises:
        OptionError: The variables that it sets are not all there, or are not what it sets.
    """
    sizes = {name: os.environ.get(name) for name in ("WORLD_SIZE", "RANK")}
    if sizes["WORLD_SIZE"] in (None, "1"):
        return 1
    for name, value in sizes.items():
        if value is None or not value.isascii() or not value.isdigit() or len(value) > 6:
            raise OptionError(
                f"the environment variable WORLD_SIZE is {sizes['WORLD_SIZE']!r} and {name} is "
                f"{value!r}: need whole numbers, as torchrun sets them. Unset both to train in one "
                "process."
            )
    count = int(str(sizes["WORLD_SIZE"]))
    if not int(str(sizes["RANK"])) < count:
        raise OptionError(
            f"the environment variable RANK is {sizes['RANK']} and WORLD_SIZE {count}: need a rank "
            "below the size, as torchrun sets them."
        )
    return count


Host = Annotated[
    str, typer.Option(help="Address to listen on; other machines reach it only with a token.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help=f"File with the token; else the variable {TOKEN_VARIABLE} is read."),
]
AllowHost = Annotated[
    list[str] | None, typer.Option(help="A further name under which callers may address it.")
]

"""How loops are compiled, and where the compiled code is kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar

import numba

Kernels = TypeVar("Kernels")
MOST_SIZES = 4
"""Sizes for which a process compiles kernels of their own: each takes seconds and 10 MB."""
_FAST = {"contract", "reassoc", "nsz"}
"""Sums may be reordered; infinities and NaN are kept as they are."""


def compiled(function: Callable[..., None]) -> Any:
    """A function of numpy arrays and numbers, compiled at its first call for their types.

    The compiled code is kept beside that of Python (`__pycache__`), or in the user's cache where
    that cannot be written to, and loaded by later processes. It is code like the files around it:
    whoever can change it can change these, too. Where it can be kept nowhere, every process
    compiles for itself.

    A function that is made by another one may use functions of its module, but none that were made
    by that function: it would then be compiled anew in every process.
    """
    kernel: Any = numba.njit(nogil=True, error_model="numpy", fastmath=_FAST)(function)
    try:
        kernel.enable_caching()
    except RuntimeError:  # there is no folder that can be written to
        return kernel
    keep = kernel._cache.save_overload

    def keep_if_possible(*overload: Any) -> None:
        with suppress(OSError):  # a full disk
            keep(*overload)

    kernel._cache.save_overload = keep_if_possible
    return kernel


def for_sizes(make: Callable[..., Kernels]) -> Callable[..., Kernels]:
    """Kernels by their size, which is a constant to the compiler for the first few sizes.

    Any more sizes, which only a process that reads many odd models meets, share kernels for all of
    them: slower, but compiled once.

    Args:
        make: Makes kernels for some whole numbers; the last one is the size, 0 for any.
    """
    known: dict[tuple[int, ...], Kernels] = {}

    @wraps(make)
    def kernels(*numbers: int) -> Kernels:
        if numbers not in known and len(known) >= MOST_SIZES:
            numbers = (*numbers[:-1], 0)
        if numbers not in known:
            known[numbers] = make(*numbers)
        return known[numbers]

    return kernels

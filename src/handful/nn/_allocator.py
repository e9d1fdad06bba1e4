"""Keep freed memory for the next layer instead of giving it back to the system each time.

A pass over a large cloud allocates and frees arrays of many megabytes. By default glibc maps each
of them afresh, and the kernel zeroes every page again: at 8,000 points half of the time went there
(`benchmarks/encoder.py`).

The setting belongs to the whole process, so nothing in the library makes it unasked. Programs that
encode many clouds call `keep_freed_memory` once when they start: the command line does, and so does
each of its worker processes.
"""

from __future__ import annotations

import ctypes
import os
import platform

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 2**30
_GLIBC_BYTES = 128 * 1024


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed memory in this process; does nothing on other systems.

    Two thresholds of malloc rise to 1 GiB. Arrays below this size come from the heap and not from
    fresh mappings (M_MMAP_THRESHOLD), and the heap keeps up to this much free memory at its top
    (M_TRIM_THRESHOLD). Both hold for every allocation of the process, other libraries included.
    The process then holds the peak of its memory until it ends, or until `return_freed_memory`.
    Results do not change. More calls do nothing more.

    Returns:
        Whether the allocator took the new values.
    """
    return _set_thresholds(_KEPT_BYTES, _KEPT_BYTES)


def return_freed_memory() -> bool:
    """Undo `keep_freed_memory`: restore glibc's thresholds and give free memory to the system.

    The thresholds return to the values with which glibc starts: those of the environment variables
    MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ where they are set, and 128 KiB where not. One
    thing cannot be restored: glibc raises an untouched threshold by itself when large blocks are
    freed, and never again once a program has set one.

    Returns:
        Whether the allocator took the values.
    """
    done = _set_thresholds(
        _from_environment("MALLOC_MMAP_THRESHOLD_"), _from_environment("MALLOC_TRIM_THRESHOLD_")
    )
    if done:
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
    return done


def _set_thresholds(mmap: int, trim: int) -> bool:
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_THRESHOLD, mmap) and mallopt(_M_TRIM_THRESHOLD, trim))


def _from_environment(name: str) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else _GLIBC_BYTES

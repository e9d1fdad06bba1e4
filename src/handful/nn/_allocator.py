"""Keep freed memory for the next layer instead of giving it back to the system each time.

A pass over a large cloud allocates and frees arrays of many megabytes. By default glibc maps each
of them afresh, and the kernel zeroes every page again: at 8,000 points half of the time went there
(`benchmarks/encoder.py`).
"""

from __future__ import annotations

import ctypes
import platform
from functools import lru_cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 2**30


@lru_cache(maxsize=1)
def keep_freed_memory() -> bool:
    """Raise glibc's thresholds, once for the process; does nothing on other systems.

    Returns:
        Whether the allocator took the new values.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES) and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES))

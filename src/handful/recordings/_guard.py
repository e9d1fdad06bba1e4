"""What stands between foreign files and the libraries that read them: no pipes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from handful.errors import FileFormatError


def check_regular(path: Path) -> None:
    """Refuse whatever is not a regular file or a link to one: pipes and devices have no end.

    Raises:
        FileFormatError: It is none, or is missing.
    """
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileFormatError(f"{path}: cannot be read: {reason}.") from error
    if not regular:
        raise FileFormatError(f"{path}: cannot be read: it is no regular file.")

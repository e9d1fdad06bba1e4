"""Words from files made safe for file names: the one place where they are."""

from __future__ import annotations

import hashlib
import re

MAX_BYTES = 120
"""Of one word of a file name; file systems take 255 for the whole name."""
_LONGEST_WORD = 64
"""Characters of one word of a file name, at most."""
_UNSAFE = re.compile(r"[^\w.-]")
"""Characters that do not go into file names."""


def safe_name(word: str) -> str:
    """A word that is safe in file names; words that differ stay different.

    Letters, digits, `_`, `-` and `.` stay. A word with other characters gets `_` for each of them
    and a short digest of the whole word. So does a long word, which is cut off. No word leads out
    of a folder, is hidden, or is empty.
    """
    usual = bool(word) and not _UNSAFE.search(word) and not word.startswith(".")
    if usual and len(word) <= _LONGEST_WORD and len(word.encode()) <= MAX_BYTES:
        return word
    digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    short = _UNSAFE.sub("_", word).lstrip(".")[: _LONGEST_WORD - 7]
    return f"{short.encode()[: MAX_BYTES - 7].decode(errors='ignore')}_{digest}"


def printable(text: str) -> str:
    """Text whose control codes, and bytes that are no characters, are written as escapes."""
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(one if one.isprintable() or one in "\n\t" else repr(one)[1:-1] for one in clean)

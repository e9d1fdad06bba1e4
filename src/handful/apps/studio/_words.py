"""Words from files and errors, made safe for the panels of the page.

The page compiles what its panels say: braces would be run as code.
"""

from __future__ import annotations

from handful._names import printable

_ORDINARY = set(" .,:;'/%=@·°±→×")


def plain(text: str) -> str:
    """The text such that a panel shows it letter by letter."""
    return "".join(
        letter if letter.isalnum() or letter in _ORDINARY else f"&#{ord(letter)};"
        for letter in printable(text)
    )

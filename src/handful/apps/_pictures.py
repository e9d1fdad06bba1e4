"""Writing pictures from commands."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from handful._files import atomic_write_bytes, make_folder
from handful.errors import OptionError

if TYPE_CHECKING:
    from PIL.Image import Image


def check_picture_name(path: Path) -> None:
    """Refuse a file name that pictures are not written under."""
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise OptionError(f"{path}: pictures are written as .png or .jpg.")


def write_picture(image: Image, path: Path) -> None:
    """Write a picture whole or not at all; its folder is made when missing."""
    check_picture_name(path)
    content = io.BytesIO()
    image.save(content, "PNG" if path.suffix.lower() == ".png" else "JPEG")
    make_folder(path.parent)
    atomic_write_bytes(path, content.getvalue())

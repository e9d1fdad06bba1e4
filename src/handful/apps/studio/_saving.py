"""What a room shows, as a picture or as a page that opens without a server."""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np
import viser
from PIL import Image

from handful._files import atomic_write_bytes, make_subfolder
from handful.apps.studio._stage import Contents
from handful.clouds import Intrinsics, concatenate
from handful.errors import OptionError
from handful.render import Camera, draw_picture, look_at
from handful.viz import page_of_scene, view_of_scene

SIZE = (1200, 800)
"""Width and height of a picture, pixels."""


def save_picture(
    contents: Contents, folder: Path, room: str, client: viser.ClientHandle | None
) -> Path:
    """Draw what is shown, from where the page looks, and let the page download it.

    Args:
        contents: What is shown.
        folder: Where pictures are kept.
        room: For the name of the file.
        client: The page that asked; None for a view of the whole.

    Returns:
        The file.
    """
    content = io.BytesIO()
    picture(contents, client).save(content, "PNG")
    return _kept(content.getvalue(), folder, f"{room.lower()}.png", client)


def save_page(
    contents: Contents, folder: Path, room: str, client: viser.ClientHandle | None
) -> Path:
    """The same as a page with everything in it."""
    _check(contents)
    title = f"handful studio: {room}"
    page = page_of_scene(contents.clouds, contents.meshes, title, contents.pictures)
    return _kept(page.encode(), folder, f"{room.lower()}.html", client)


def picture(contents: Contents, client: viser.ClientHandle | None = None) -> Image.Image:
    """What is shown, drawn by our own renderer, with the panel's pictures to its right."""
    _check(contents)
    camera = _camera(contents, client)
    scene = draw_picture(list(contents.clouds), list(contents.meshes), camera)
    if not contents.pictures:
        return scene
    wide = scene.width + max(one.width for one in contents.pictures)
    high = max(scene.height, sum(one.height for one in contents.pictures))
    whole = Image.new("RGB", (wide, high), "white")
    whole.paste(scene, (0, 0))
    top = 0
    for one in contents.pictures:
        whole.paste(one, (scene.width, top))
        top += one.height
    return whole


def _check(contents: Contents) -> None:
    if not contents.clouds:
        raise OptionError("nothing is shown here yet: open a scene first.")


def _camera(contents: Contents, client: viser.ClientHandle | None) -> Camera:
    if client is None:
        clouds = [cloud.without_colors() for cloud in contents.clouds]
        return view_of_scene(concatenate(clouds), size=SIZE)
    camera = client.camera
    intrinsics = Intrinsics.from_field_of_view(*SIZE, float(camera.fov))
    position, target = np.array(camera.position), np.array(camera.look_at)
    return look_at(position, target, intrinsics)


def _kept(content: bytes, folder: Path, name: str, client: viser.ClientHandle | None) -> Path:
    make_subfolder(folder)
    file = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    atomic_write_bytes(file, content)
    if client is not None:
        client.send_file_download(file.name, content)
    return file

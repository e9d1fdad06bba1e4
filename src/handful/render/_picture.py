"""Pictures of clouds and meshes for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from PIL import Image

from handful.clouds import PointCloud
from handful.errors import OptionError
from handful.render._camera import Camera
from handful.render._mesh import Color, ColoredMesh
from handful.render._raster import DepthBuffer
from handful.render._rgbd import DEFAULT_LIGHT, Light, draw_meshes
from handful.render._sheet import write_caption
from handful.render._splats import draw_clouds

_RING = np.array([[0, 1], [1, 1], [1, 0], [1, -1], [0, -1], [-1, -1], [-1, 0], [-1, 1]])

_EMPTY = 100.0
"""Logarithm of a depth beyond all depths."""


@dataclass(frozen=True)
class PictureStyle:
    """How `draw_picture` draws.

    Attributes:
        background: Colour where there is nothing.
        point_size: Scales the discs of points; 1 closes the surfaces of an even cloud.
        edge_darkness: Strength of eye-dome lighting, which darkens a pixel by how far it lies
            behind its neighbours; 0 switches it off.
        edge_width: Distance to these neighbours, pixels of the finished picture.
        hidden_opacity: What is left of a see-through mesh's opacity where something opaque is in
            front of it.
        smoothing: Rows and columns that are computed for each of the picture, then averaged.
        light: Shades meshes; clouds keep the colours they were seen in.
    """

    background: Color = (0.965, 0.97, 0.98)
    point_size: float = 1.0
    edge_darkness: float = 1.0
    edge_width: float = 1.0
    hidden_opacity: float = 0.3
    smoothing: int = 2
    light: Light = DEFAULT_LIGHT

    def __post_init__(self) -> None:
        if not (np.isfinite(self.point_size) and self.point_size > 0):
            raise OptionError(f"point_size is {self.point_size}: need a positive number.")
        if not 1 <= self.smoothing <= 4:
            raise OptionError(f"smoothing is {self.smoothing}: need 1 to 4.")


DEFAULT_STYLE = PictureStyle()


def draw_picture(
    clouds: Sequence[PointCloud],
    meshes: Sequence[ColoredMesh],
    camera: Camera,
    style: PictureStyle = DEFAULT_STYLE,
    caption: str = "",
) -> Image.Image:
    """Draw clouds as depth-tested discs and meshes as shaded surfaces.

    Arrows and frames are meshes too: see `arrow_mesh` and `frame_meshes`.

    Args:
        clouds: In the scene frame, metres. A cloud without colours is coloured by height.
        meshes: In the scene frame, metres. Those with an opacity below 1 are see-through.
        camera: Where from; its intrinsics give the size of the picture.
        style: How.
        caption: Text in the lower left corner.

    Returns:
        An RGB image of the camera's size.
    """
    fine = camera.magnified(style.smoothing)
    solid = [mesh for mesh in meshes if mesh.opacity >= 1.0]
    buffer = DepthBuffer(fine.intrinsics)
    colors = draw_clouds(buffer, list(clouds), fine, style.point_size)
    shaded = draw_meshes(buffer, solid, fine, style.light, first_owner=len(colors))
    image = _developed(buffer, np.concatenate([colors, shaded]), style)
    for opacity in sorted({mesh.opacity for mesh in meshes if 0.0 < mesh.opacity < 1.0}):
        layer = [mesh for mesh in meshes if mesh.opacity == opacity]
        image = _with_layer(image, buffer, layer, opacity, fine, style)
    picture = _shrunk(image, style.smoothing)
    if caption:
        write_caption(picture, caption)
    return picture


def _developed(
    buffer: DepthBuffer, colors: Float[np.ndarray, "primitives 3"], style: PictureStyle
) -> Float[np.ndarray, "height width 3"]:
    """The colour of the nearest primitive, darkened behind edges; background elsewhere."""
    # Where nothing was drawn the owner is -1, which is the last row: the background.
    table = np.concatenate([colors, [style.background]]).astype(np.float32)
    bright = _edge_brightness(buffer, style) if style.edge_darkness > 0 else np.ones((1, 1))
    return table[buffer.owner] * bright[:, :, None]


def _edge_brightness(buffer: DepthBuffer, style: PictureStyle) -> Float[np.ndarray, "height width"]:
    """Eye-dome lighting: exp(-k mean max(0, log z - log z')) over a ring of neighbours z'.

    Neighbours where nothing was drawn do not darken. The logarithm makes it independent of scale;
    the cap keeps far silhouettes from turning black.
    """
    far = -np.log(np.maximum(buffer.inverse_depth, 1e-30)).astype(np.float32)
    reach = max(1, round(style.edge_width * style.smoothing))
    padded = np.pad(far, reach, constant_values=_EMPTY)
    height, width = far.shape
    total = np.zeros_like(far)
    for down, right in _RING * reach:
        row, column = reach + down, reach + right
        near = padded[row : row + height, column : column + width]
        total += np.clip(far - near, 0.0, 0.03)
    total[~buffer.covered] = 0.0
    return np.exp(-60.0 * style.edge_darkness / len(_RING) * total)


def _with_layer(
    image: Float[np.ndarray, "height width 3"],
    solid: DepthBuffer,
    meshes: Sequence[ColoredMesh],
    opacity: float,
    camera: Camera,
    style: PictureStyle,
) -> Float[np.ndarray, "height width 3"]:
    """See-through meshes over a finished image, fainter where they are behind something."""
    layer = DepthBuffer(camera.intrinsics)
    colors = draw_meshes(layer, meshes, camera, style.light)
    if not layer.covered.any():
        return image
    part = layer.crop()
    over = _developed(layer, colors, style)
    in_front = layer.inverse_depth >= solid.inverse_depth[part]
    share = np.where(in_front, opacity, opacity * style.hidden_opacity) * layer.covered
    blended = image.copy()
    blended[part] += share[:, :, None] * (over - image[part])
    return blended


def _shrunk(image: Float[np.ndarray, "height width 3"], factor: int) -> Image.Image:
    """Average squares of `factor` x `factor` pixels; 8 bits per channel."""
    total = sum(
        image[row::factor, column::factor] for row in range(factor) for column in range(factor)
    )
    mean = np.asarray(total) / factor**2
    return Image.fromarray(np.rint(255.0 * mean.clip(0.0, 1.0)).astype(np.uint8))

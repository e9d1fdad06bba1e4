"""What a depth camera without noise would see of a scene of meshes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.clouds import RgbdView
from handful.render._camera import Camera
from handful.render._mesh import ColoredMesh, face_normals
from handful.render._raster import DepthBuffer, draw_triangles


@dataclass(frozen=True)
class Light:
    """Two-sided Lambert shading: a sun, a lamp on the camera, and light from everywhere.

    Attributes:
        sun: Direction towards the sun in the scene; need not have length 1.
        sun_strength: Brightness of a surface that faces the sun.
        lamp_strength: Brightness that the lamp adds to a surface that faces the camera.
        ambient: Brightness that every surface has.
    """

    sun: tuple[float, float, float] = (0.35, -0.45, 0.85)
    sun_strength: float = 0.4
    lamp_strength: float = 0.2
    ambient: float = 0.5


DEFAULT_LIGHT = Light()


def render_rgbd(
    meshes: Sequence[ColoredMesh], camera: Camera, light: Light = DEFAULT_LIGHT
) -> RgbdView:
    """Depth and colour of meshes; depth is exact, and zero where there is nothing.

    Surfaces closer than `NEAR` (1 cm) are cut away; opacity is ignored.

    Args:
        meshes: In the scene frame, metres.
        camera: Where from.
        light: How surfaces are shaded.
    """
    buffer = DepthBuffer(camera.intrinsics)
    colors = draw_meshes(buffer, meshes, camera, light)
    shape = (*buffer.owner.shape, 3)
    image = np.zeros(shape, dtype=np.uint8)
    image[buffer.covered] = np.rint(255.0 * colors[buffer.owner[buffer.covered]])
    return RgbdView(buffer.depth(), image, camera.intrinsics, camera.T_scene_camera)


def draw_meshes(
    buffer: DepthBuffer,
    meshes: Sequence[ColoredMesh],
    camera: Camera,
    light: Light = DEFAULT_LIGHT,
    first_owner: int = 0,
) -> Float[np.ndarray, "triangles 3"]:
    """Draw meshes into a depth buffer; the shaded colour of each triangle, in order."""
    if not meshes:
        return np.zeros((0, 3))
    triangles = np.concatenate([mesh.triangles for mesh in meshes])
    draw_triangles(buffer, camera.to_camera(triangles), first_owner)
    counts = [len(mesh.faces) for mesh in meshes]
    colors = np.repeat(np.array([mesh.color for mesh in meshes]), counts, axis=0)
    return np.clip(colors * _brightness(triangles, camera, light)[:, None], 0.0, 1.0)


def _brightness(
    triangles: Float[np.ndarray, "triangles 3 3"], camera: Camera, light: Light
) -> Float[np.ndarray, "triangles"]:
    """Light that each triangle sends to the camera, in the middle of the triangle."""
    normal = face_normals(triangles)
    sight = camera.position - triangles.mean(axis=1)
    sight /= np.maximum(np.linalg.norm(sight, axis=1, keepdims=True), 1e-12)
    facing = np.einsum("ij,ij->i", normal, sight)
    sun = np.asarray(light.sun) / np.linalg.norm(light.sun)
    sunny = np.maximum(np.sign(facing) * (normal @ sun), 0.0)
    return light.ambient + light.sun_strength * sunny + light.lamp_strength * np.abs(facing)

"""Pictures by MuJoCo without a screen: EGL or OSMesa, whichever is there."""

from __future__ import annotations

import atexit
import ctypes
import ctypes.util
import os
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from handful.clouds import RgbdView
from handful.render import Camera
from handful.sim._errors import NoGraphicsError, load_extra
from handful.sim._world import World

BACKENDS = {"egl": ("EGL", "libEGL.so.1"), "osmesa": ("OSMesa", "libOSMesa.so.8")}
_ADVICE = (
    "install one (Debian: apt-get install libegl1 libgl1-mesa-dri, or libosmesa6) or name one "
    "with MUJOCO_GL=egl or MUJOCO_GL=osmesa."
)


def choose_backend() -> str:
    """`egl` or `osmesa`: what MUJOCO_GL says, else the first whose library can be loaded.

    Raises:
        NoGraphicsError: Neither is there, or MUJOCO_GL names something else.
    """
    wish = os.environ.get("MUJOCO_GL", "").lower()
    if wish:
        if wish not in BACKENDS:
            raise NoGraphicsError(f"MUJOCO_GL is {wish!r}: handful draws with egl or osmesa.")
        return wish
    for name, (short, file) in BACKENDS.items():
        try:
            ctypes.CDLL(ctypes.util.find_library(short) or file)
        except OSError:
            continue
        return name
    raise NoGraphicsError(f"neither EGL nor OSMesa was found: {_ADVICE}")


@lru_cache(maxsize=1)
def graphics() -> Any:
    """The one graphics context of this process, current on this thread.

    Sets `MUJOCO_GL` and `PYOPENGL_PLATFORM` in the environment: both packages read them when they
    are first imported.

    Raises:
        NoGraphicsError: There is none, with what to install.
    """
    name = choose_backend()
    os.environ["MUJOCO_GL"] = name
    os.environ.setdefault("PYOPENGL_PLATFORM", name)
    load_extra("mujoco")
    try:
        context = load_extra(f"mujoco.{name}").GLContext(1280, 960)
        context.make_current()
    except Exception as error:  # PyOpenGL raises many kinds
        raise NoGraphicsError(f"{name} cannot draw here ({error}): {_ADVICE}") from error
    atexit.register(context.free)
    return context


class Renderer:
    """Draws one world.

    The first renderer of a process makes the process's one graphics context and sets `MUJOCO_GL`
    and `PYOPENGL_PLATFORM` to the library that it found. Close every renderer: Python does not
    give the graphics memory of a model back.
    """

    def __init__(self, world: World) -> None:
        self._mj = load_extra("mujoco")
        graphics().make_current()
        self._model = world.model
        self._context: Any = self._mj.MjrContext(world.model, self._mj.mjtFontScale.mjFONTSCALE_100)
        self._mj.mjr_setBuffer(self._mj.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._context.readDepthMap = self._mj.mjtDepthMap.mjDEPTH_ZEROFAR
        self._scene = self._mj.MjvScene(world.model, 2000)
        self._option = self._mj.MjvOption()
        self._free = self._mj.MjvCamera()

    def close(self) -> None:
        """Give the graphics memory back."""
        if self._context is not None:
            graphics().make_current()
            self._context.free()
            self._context = None

    def render(
        self,
        world: World,
        cameras: list[Camera],
        groups: tuple[int, ...],
        pretty: bool = False,
        state: Any | None = None,
    ) -> list[RgbdView]:
        """Depth and colour from each camera.

        Args:
            world: The one that this renderer was made for.
            cameras: In the scene.
            groups: Which groups of bodies are visible.
            pretty: With shadows, for people; clouds have none (and take a third of the time).
            state: Another state of the world, from `World.imagine`; the present one if not given.
        """
        mj = self._mj
        graphics().make_current()
        # Another renderer that was closed since has taken its buffer with it.
        mj.mjr_setBuffer(mj.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._option.geomgroup[:] = 0
        self._option.geomgroup[list(groups)] = 1
        mj.mjv_updateScene(
            self._model, world.data if state is None else state, self._option, None, self._free,
            mj.mjtCatBit.mjCAT_ALL.value, self._scene,
        )  # fmt: skip
        for flag in (mj.mjtRndFlag.mjRND_SHADOW, mj.mjtRndFlag.mjRND_REFLECTION):
            self._scene.flags[flag] = int(pretty)
        self._scene.flags[mj.mjtRndFlag.mjRND_HAZE] = 0
        return [self._take(camera) for camera in cameras]

    def _take(self, camera: Camera) -> RgbdView:
        view, T_scene_camera = camera.intrinsics, camera.T_scene_camera
        near = self._model.vis.map.znear * self._model.stat.extent
        far = self._model.vis.map.zfar * self._model.stat.extent
        top = near * view.height / (2.0 * view.fy)
        for lens in self._scene.camera:
            lens.pos, lens.forward = T_scene_camera[:3, 3], T_scene_camera[:3, 2]
            lens.up = -T_scene_camera[:3, 1]
            lens.frustum_near, lens.frustum_far = near, far
            lens.frustum_bottom, lens.frustum_top = -top, top
            lens.frustum_center, lens.frustum_width = 0.0, 0.0
        for lamp in self._scene.lights[: self._scene.nlight]:
            if lamp.headlight:
                lamp.pos, lamp.dir = T_scene_camera[:3, 3], T_scene_camera[:3, 2]
        rect = self._mj.MjrRect(0, 0, view.width, view.height)
        self._mj.mjr_render(rect, self._scene, self._context)
        color: UInt8[np.ndarray, "h w 3"] = np.empty((view.height, view.width, 3), np.uint8)
        raw: Float[np.ndarray, "h w"] = np.empty((view.height, view.width), np.float32)
        self._mj.mjr_readPixels(color, raw, rect, self._context)
        # Reversed z buffer: 1 is near, 0 is far.
        deep = raw[::-1].astype(np.float64)
        depth = far * near / (deep * (far - near) + near)
        depth[deep <= 0.0] = 0.0
        return RgbdView(depth, color[::-1].copy(), view, T_scene_camera)

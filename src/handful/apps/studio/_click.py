"""The next click on the scene, for the button that asked for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import viser
from jaxtyping import Float

from handful.apps.studio._desk import Desk

Ray = tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]]


class SceneClick:
    """Waits for one click on the scene of any page. All methods are called at the desk.

    Args:
        scene: Of the pages.
        desk: Where the click is worked on.
    """

    def __init__(self, scene: viser.SceneApi, desk: Desk) -> None:
        self._scene, self._desk = scene, desk
        self._work: Callable[[Ray], None] | None = None

    def wait(self, work: Callable[[Ray], None]) -> None:
        """Do something with the next click; who waited before is forgotten.

        Args:
            work: Given origin and direction of the ray from the eye through the mouse.
        """
        self.forget()
        self._work = work

        @self._scene.on_pointer_event("click")
        def _(event: viser.ScenePointerEvent) -> None:
            origin, direction = event.ray_origin, event.ray_direction
            if origin is not None and direction is not None:
                ray = np.array(origin), np.array(direction)
                self._desk.do(partial(self._clicked, ray))

    def forget(self) -> None:
        """Wait no more, if somebody did."""
        if self._work is not None:
            self._work = None
            self._scene.remove_pointer_callback()

    def _clicked(self, ray: Ray) -> None:
        work = self._work
        if work is not None:  # else it is the second click of two
            self.forget()
            work(ray)

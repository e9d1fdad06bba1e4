"""Who touches whom in a world: the role of every geom, for the pair in focus."""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.sim._hand import GROUP_OBJECT, GROUP_SCENE, GROUP_TOUCH
from handful.sim._physics import Role, judged_bit

_KINDS = ("item", "target", "support", "distractor")
"""Bodies are named by a kind and a number."""


class Contacts:
    """Knows which body each geom of a model belongs to.

    Args:
        model: A `mujoco.MjModel`. Groups and contact settings of its objects are changed.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._owners = [_owner(model, geom) for geom in range(model.ngeom)]
        self._roles = np.array([])

    def focus(self, pair: int) -> None:
        """Turn to a pair: roles, and the group in which objects are drawn."""
        self._roles = np.array([_role(owner, pair).value for owner in self._owners])
        for geom, (kind, number) in enumerate(self._owners):
            if kind == "item" and self._model.geom_group[geom] != GROUP_TOUCH:
                self._model.geom_group[geom] = GROUP_OBJECT if number == pair else GROUP_SCENE

    def touching(self, one: Role, other: Role, deeper: float, state: Any) -> bool:
        """Whether bodies of two roles touch in a state, by more than `deeper` metres."""
        if not state.ncon:
            return False
        roles = self._roles[state.contact.geom]
        pair = ((roles[:, 0] == one.value) & (roles[:, 1] == other.value)) | (
            (roles[:, 1] == one.value) & (roles[:, 0] == other.value)
        )
        return bool((state.contact.dist[pair] < -deeper).any())

    def judge_alone(self) -> None:
        """From now on every object touches nothing but its own target."""
        for geom, (kind, pair) in enumerate(self._owners):
            if kind == "item" and self._model.geom_contype[geom] > 0:
                self._model.geom_contype[geom] = judged_bit(pair)
                self._model.geom_conaffinity[geom] = 0


def _owner(model: Any, geom: int) -> tuple[str, int]:
    """Kind and number of the body that a geom belongs to."""
    name = model.body(model.geom_bodyid[geom]).name
    for kind in _KINDS:
        if name.startswith(kind):
            return kind, int(name.removeprefix(kind))
    return ("room" if name == "world" else "robot"), 0


def _role(owner: tuple[str, int], focus: int) -> Role:
    kind, number = owner
    if kind in ("item", "target"):
        if number != focus:
            return Role.OTHER
        return Role.OBJECT if kind == "item" else Role.TARGET
    if kind == "distractor":
        return Role.DISTRACTOR
    return Role.ROBOT if kind == "robot" else Role.FURNITURE

"""How things touch: the contact settings, with their reasons, and who touches whom."""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any

from handful.sim._errors import load_extra

TIMESTEP = 0.002
"""Seconds. At 4 ms thin walls slip out of the fingers."""


class Role(Enum):
    """What a body is in the world.

    `OBJECT` and `TARGET` are the pair in focus; the objects and targets of all other pairs are
    `OTHER`. A body touches what its kind touches, in focus or not.
    """

    ROBOT = "robot"
    OBJECT = "object"
    TARGET = "target"
    OTHER = "other things"
    FURNITURE = "furniture"
    DISTRACTOR = "distractor"


_OBJECT, _TARGET, _ROBOT, _FURNITURE = 1, 2, 4, 8
_JUDGED = 16
MOST_PAIRS = 16
"""Each pair has a bit of its own for judging."""

COLLIDE: dict[Role, tuple[int, int]] = {
    Role.OBJECT: (_OBJECT, _OBJECT | _TARGET | _ROBOT | _FURNITURE),
    Role.TARGET: (_TARGET, _OBJECT | _ROBOT),
    Role.ROBOT: (_ROBOT, _OBJECT | _TARGET | _FURNITURE),
    Role.FURNITURE: (_FURNITURE, _OBJECT | _ROBOT),
    Role.DISTRACTOR: (0, 0),
}
"""Contact type and affinity (MuJoCo's bit masks); distractors touch nothing, as in the paper."""


def judged_bit(pair: int) -> int:
    """Contact type of an object while success is judged: only its own target has that affinity."""
    return _JUDGED << pair


FRICTION = {
    Role.OBJECT: (0.7, 0.01, 0.0005),
    Role.TARGET: (0.7, 0.01, 0.0005),
    Role.FURNITURE: (0.7, 0.01, 0.001),
}
"""Sliding, torsional (m) and rolling (m). The fingers' pads have more; the larger of two counts."""


def physics() -> Any:
    """The package `mujoco`, told to pass its warnings to `logging`, for the whole process.

    Otherwise the package appends its warnings to a file MUJOCO_LOG.TXT in the working directory. A
    handler that the user has set stays.
    """
    mj = load_extra("mujoco")
    if mj.get_mju_user_warning() is None:
        mj.set_mju_user_warning(logging.getLogger("handful.sim").info)
    return mj


def set_up(spec: Any, mj: Any) -> None:
    """Solver settings of every world."""
    spec.compiler.degree = False
    option = spec.option
    option.timestep = TIMESTEP
    option.integrator = mj.mjtIntegrator.mjINT_IMPLICITFAST
    # A pyramidal cone lets a held object creep along its edges, and so does a low impratio, which
    # makes friction soft in comparison with the normal force.
    option.cone = mj.mjtCone.mjCONE_ELLIPTIC
    option.impratio = 10.0
    option.iterations = 30
    option.tolerance = 1e-8
    # A world that diverges must be seen to have diverged, not be reset behind our back.
    option.disableflags |= mj.mjtDisableBit.mjDSBL_AUTORESET
    spec.visual.map.znear = 0.02
    spec.visual.map.zfar = 6.0
    spec.visual.quality.offsamples = 0
    spec.stat.extent = 1.0
    spec.stat.center = [0.0, 0.0, 0.1]


def touch_settings(role: Role) -> dict[str, Any]:
    """Contact settings of one geom.

    condim 6 adds torsional and rolling friction: without them a bottle rolls off its support and
    a mug turns about the line between two fingers.
    """
    contype, conaffinity = COLLIDE[role]
    return {
        "contype": contype,
        "conaffinity": conaffinity,
        "condim": 6,
        "friction": list(FRICTION[role]),
        "solref": [0.006, 1.0],
        "solimp": [0.95, 0.99, 0.0005, 0.5, 2.0],
    }

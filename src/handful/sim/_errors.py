"""What can go wrong in the simulated world that a caller can mend."""

from __future__ import annotations

import importlib
from typing import Any

from handful.errors import HandfulError


class SimError(HandfulError, RuntimeError):
    """The simulated world cannot do what was asked."""


class MissingExtraError(SimError):
    """A package of the extra `sim` is not installed."""


class NoGraphicsError(SimError):
    """Neither EGL nor OSMesa can draw here."""


class ObjectRefusedError(SimError, ValueError):
    """A user's mesh lacks what the task needs, for example a handle."""


class DivergedError(SimError):
    """Positions are not finite any more, or an object left the room; ends the episode."""


def load_extra(name: str) -> Any:
    """Import a package of the extra `sim`, or say how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"the simulated world needs the package {name!r}, which is not installed: "
            "pip install 'handful[sim]'."
        ) from error

"""Optional packages of importers."""

from __future__ import annotations

import importlib
from types import ModuleType

from handful.errors import HandfulError


class MissingImporterError(HandfulError, ImportError):
    """A package that an importer needs is not installed."""


def required(module: str, extra: str) -> ModuleType:
    """A module of an optional package.

    Raises:
        MissingImporterError: It is not installed; the message says what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingImporterError(
            f"the package {module.partition('.')[0]!r} is not installed: install it with `pip "
            f"install 'handful[{extra}]'`."
        ) from error

"""The studio: teach, train, look and try in the browser."""

from ._config import StudioConfig as StudioConfig
from ._studio import Studio as Studio
from ._studio import run_studio as run_studio

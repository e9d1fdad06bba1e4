"""The files that a manifest or a poses file names."""

from __future__ import annotations

from pathlib import Path

from handful.clouds import PointCloud, read_cloud
from handful.errors import DemoError, errors_at


def member_path(root: Path, relative: str, address: str) -> Path:
    """The real path of a file in a folder.

    Args:
        root: The folder.
        relative: The file's path inside of it.
        address: Who names it, for messages.

    Raises:
        DemoError: It leads out of the folder, links included, or is no path.
    """
    try:
        real = (root / relative).resolve()
        inside = real.is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise DemoError(f"{address}: {relative!r} is not a usable path: {error}.") from error
    if not inside:
        raise DemoError(f"{address}: {relative!r} leads out of the folder {root}.")
    return real


class CloudFolder:
    """Reads the clouds of one folder: each file once, and none that is outside of it.

    A file that is named a thousand times is one cloud, so that a small manifest cannot ask for
    more memory than the files beside it take.

    Args:
        root: The folder.
        scale: Metres per unit of the files.
    """

    def __init__(self, root: Path, scale: float = 1.0) -> None:
        if not root.is_dir():
            raise DemoError(f"{root}: no such folder.")
        self._root = root
        self._scale = scale
        self._known: dict[Path, PointCloud] = {}

    def read(self, relative: str, address: str) -> PointCloud:
        """The cloud of a file.

        Args:
            relative: Its path inside the folder.
            address: Who names it, for messages.

        Raises:
            HandfulError: It leads out of the folder, links included, or is no readable cloud.
        """
        real = member_path(self._root, relative, address)
        if real not in self._known:
            with errors_at(address):
                self._known[real] = read_cloud(self._root / relative, scale=self._scale)
        return self._known[real]

"""What a studio is asked to be."""

from __future__ import annotations

from dataclasses import dataclass

from handful.apps._listening import check_listening
from handful.errors import OptionError


@dataclass(frozen=True)
class StudioConfig:
    """Of `handful studio`.

    Attributes:
        folder: The studio's folder, or a demonstration set.
        host: Address to listen on.
        port: Port; 0 lets the system choose one.
        token: That pages must show; empty for none, on loopback only.
        hosts: Further names under which pages may address the studio.
        gripper: Of a folder without demonstrations: a known hand, or a file.
        runs: Folders of further runs, to look at and to try.
        max_bytes: Of one upload.
        max_points: Of one cloud.
    """

    folder: str
    host: str = "127.0.0.1"
    port: int = 8730
    token: str = ""
    hosts: tuple[str, ...] = ()
    gripper: str = "franka-hand"
    runs: tuple[str, ...] = ()
    max_bytes: int = 256 * 2**20
    max_points: int = 5_000_000


def check_studio(config: StudioConfig) -> None:
    """Refuse what would be unsafe or senseless.

    Raises:
        OptionError: One sentence.
    """
    check_listening(config.host, config.token, "change what is taught in this studio")
    for name in ("max_bytes", "max_points"):
        if getattr(config, name) < 1:
            raise OptionError(f"{name} is {getattr(config, name)}: need 1 or more.")

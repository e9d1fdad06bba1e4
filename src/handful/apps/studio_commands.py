"""The command `handful studio`: teach, train, look and try in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handful.apps._listening import read_token
from handful.apps._options import AllowHost, Host, TokenFile
from handful.errors import OptionError

console = Console(emoji=False)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(studio)


def studio(
    folder: Annotated[
        Path,
        typer.Argument(help="Where everything is kept, made when missing; or a demonstration set."),
    ] = Path("studio"),
    run: Annotated[
        list[Path] | None,
        typer.Option(help="A further run of `handful train` to look at; may be repeated."),
    ] = None,
    gripper: Annotated[
        str, typer.Option(help="Of a new folder: a known hand, or a JSON file.")
    ] = "franka-hand",
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8730,
    token_file: TokenFile = None,
    allow_host: AllowHost = None,
    max_megabytes: Annotated[int, typer.Option(min=1, max=4096, help="Of one upload.")] = 256,
    max_points: Annotated[int, typer.Option(min=100, help="Of one cloud.")] = 5_000_000,
) -> None:
    """Teach, train, look and try in the browser; docs/studio.md.

    What is taught is on the disk after every change, as a demonstration set that `handful train`
    reads. Ctrl-C loses nothing.

    Example: `handful studio`

    Example: `handful studio out/sample --port 9000`

    Example: `handful studio cups --host 0.0.0.0 --token-file token.txt`
    """
    try:
        from handful.apps.studio import StudioConfig, run_studio
    except ImportError as error:
        raise OptionError(
            f"{error.name} is not installed: `pip install 'handful[view]'`."
        ) from error
    config = StudioConfig(
        folder=str(folder),
        host=host,
        port=port,
        token=read_token(token_file),
        hosts=tuple(allow_host or ()),
        gripper=gripper,
        runs=tuple(map(str, run or ())),
        max_bytes=max_megabytes * 2**20,
        max_points=max_points,
    )

    def tell(address: str) -> None:
        console.print(
            escape(f"The studio is at {address} (Ctrl-C stops; everything is in {folder})."),
            soft_wrap=True,
        )

    run_studio(config, tell)
    console.print("Stopped.")

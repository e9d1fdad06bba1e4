"""The command `handful serve`: trained models behind an HTTP address."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handful.apps._limits import (
    SURE_ENOUGH,
    Approach,
    LeastConfidence,
    Table,
    Workspace,
)
from handful.apps._listening import read_token
from handful.apps._options import AllowHost, Host, TokenFile
from handful.errors import OptionError

console = Console(emoji=False)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(serve)


def serve(
    run: Annotated[Path, typer.Argument(help="A run of `handful train`.", show_default=False)],
    step: Annotated[
        list[str] | None,
        typer.Option(help="Serve this step only; may be repeated.", show_default="all steps"),
    ] = None,
    gripper: Annotated[
        str,
        typer.Option(
            help="Another gripper than that of the demonstrations: a known hand, or a JSON file.",
            show_default="the demonstrations' own",
        ),
    ] = "",
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8720,
    token_file: TokenFile = None,
    allow_host: AllowHost = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes that infer.")] = 1,
    ray: Annotated[
        str,
        typer.Option(help="Infer on a Ray cluster, a core a worker: auto, or HOST:PORT."),
    ] = "",
    queue: Annotated[int, typer.Option(min=1, max=10_000, help="Requests that may wait.")] = 16,
    max_megabytes: Annotated[int, typer.Option(min=1, max=4096, help="Of one request.")] = 64,
    max_points: Annotated[int, typer.Option(min=100, help="Of one cloud or image.")] = 4_000_000,
    timeout: Annotated[float, typer.Option(help="Longest time of a request, seconds.")] = 20.0,
    max_age: Annotated[float, typer.Option(help="Oldest stamp of an observation, seconds.")] = 5.0,
    workspace: Workspace = None,
    approach: Approach = None,
    table: Table = None,
    least_confidence: LeastConfidence = SURE_ENOUGH,
) -> None:
    """Answer over HTTP where the gripper should go; docs/robot.md.

    Models are loaded once. `GET /` describes all addresses, `GET /metrics` has figures for
    Prometheus. Ctrl-C and SIGTERM finish what was begun. Programs call it with `handful.client`.

    Example: `handful serve runs/mug`

    Example: `handful serve runs/mug --host 0.0.0.0 --token-file token.txt --workers 2`

    Example: `handful serve runs/mug --ray auto --workers 8`

    Example: `handful serve runs/mug --workspace -0.3 -0.3 0 0.3 0.3 0.4 --approach 0 0 -1 1.0`
    """
    try:
        from handful.apps.service import ServiceConfig
        from handful.apps.service import serve as serve_until_told
    except ImportError as error:
        raise OptionError(
            f"{error.name} is not installed: `pip install 'handful[serve]'`."
        ) from error

    config = ServiceConfig(
        run=str(run),
        steps=tuple(step or ()),
        gripper=gripper,
        host=host,
        port=port,
        token=read_token(token_file),
        hosts=tuple(allow_host or ()),
        workers=workers,
        ray=ray,
        queue=queue,
        max_bytes=max_megabytes * 2**20,
        max_points=max_points,
        timeout=timeout,
        max_age=max_age,
        workspace=workspace,
        approach=approach,
        table=table,
        least_confidence=least_confidence,
    )
    serve_until_told(config, _tell)
    console.print("Stopped.")


def _tell(address: str) -> None:
    console.print(escape(f"Serving at {address} (Ctrl-C stops). Try: curl {address}/v1/tasks"),
                  soft_wrap=True)  # fmt: skip

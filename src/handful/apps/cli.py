"""The command line."""

from __future__ import annotations

import typer

import handful

app = typer.Typer(no_args_is_help=True)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"handful {handful.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True),
) -> None:
    """Teach a robot to pick and place from a handful of demonstrations."""


def main() -> None:
    """Run the command line."""
    app()

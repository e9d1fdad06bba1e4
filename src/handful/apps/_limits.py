"""Options that limit where the gripper may go, the same for every command that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from handful.policy import Limits

Six = tuple[float, float, float, float, float, float]
Four = tuple[float, float, float, float]

Workspace = Annotated[
    Six | None,
    typer.Option(
        "--workspace",
        help="Where the contact point may go: lowest x, y, z and highest x, y, z, metres. What "
        "lies too far from it to matter is left out first.",
        metavar="X Y Z X Y Z",
        show_default="everywhere",
    ),
]
Approach = Annotated[
    Four | None,
    typer.Option(
        "--approach",
        help="Allowed directions of approach: x, y, z of the middle one, and the largest angle "
        "from it in radians. `0 0 -1 0.9` is from above.",
        metavar="X Y Z ANGLE",
        show_default="all",
    ),
]
Table = Annotated[
    float | None,
    typer.Option(
        "--table", help="Height z below which nothing may reach, metres.", show_default="none"
    ),
]
LeastConfidence = Annotated[
    float,
    typer.Option(
        "--least-confidence", min=0.0, max=1.0, help="Poses of lower confidence are never chosen."
    ),
]
SURE_ENOUGH = 0.5
"""`handful.policy.SURE_ENOUGH`, written out: `--help` does not load that package."""


def limits_of(workspace: Six | None, approach: Four | None, table: float | None) -> Limits:
    """The limits that the options ask for.

    Raises:
        HandfulError: One is out of range.
    """
    from handful.clouds import Box
    from handful.policy import ApproachCone, Limits

    return Limits(
        workspace=None if workspace is None else Box(workspace[:3], workspace[3:]),
        approach=None if approach is None else ApproachCone(approach[:3], approach[3]),
        table=table,
    )

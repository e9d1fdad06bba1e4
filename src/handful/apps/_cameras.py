"""Options of the simulated cameras, the same for every command that uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from handful.sim import CameraRig

Cameras = Annotated[
    int, typer.Option("--cameras", min=1, max=3, help="Depth cameras on the scene.")
]
GraspViews = Annotated[
    int,
    typer.Option("--grasp-views", min=1, max=6, help="Pictures of the hand and of what it holds."),
]
Noise = Annotated[
    str,
    typer.Option(
        "--noise",
        help="Of the depth cameras: none, usual (3 mm at 1 m, half of the edge pixels lost), "
        "realsense-d435, azure-kinect or kinect-v1.",
    ),
]
ArmInView = Annotated[
    bool,
    typer.Option(
        "--arm-in-view",
        help="The robot is in the scene cameras' pictures; it drops its own points by its shape "
        "and joint angles.",
    ),
]


def camera_rig(cameras: int, grasp_views: int, noise: str, arm_in_view: bool) -> CameraRig:
    """The cameras that the options ask for.

    Raises:
        OptionError: There is no noise of that name.
    """
    from handful.sim import CameraRig

    return CameraRig(cameras, grasp_views, noise, arm_in_view)

"""The form of an observation: clouds or images, and what the caller says of them."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import File, Form, HTTPException, UploadFile
from starlette.datastructures import UploadFile as Upload  # what FastAPI really gives

from handful.apps.service._jobs import Uploads

CLOUD = "a cloud: PLY, PCD or NPZ (`points`, `colors`), metres"
DEPTH = "Depth images, one for each camera: 16-bit PNG, or NPY of 16-bit integers or floats."
COLOR = "Colour images registered to them: PNG, JPEG, or NPY."
AHEAD = 1.0
"""Seconds by which a caller's clock may be ahead."""
SIX_NUMBERS = r"^\s*[-+.eE0-9]{1,30}(?:[\s,]+[-+.eE0-9]{1,30}){5}\s*$"


def _cameras(pose: str) -> str:
    return (
        "The cameras, a JSON list of objects with `fx`, `fy`, `cx`, `cy`, `width`, `height` "
        f"(pixels), `{pose}` (4 x 4, row by row; x right, y down, z forward), `distortion` if the "
        "lens has any (k1, k2, p1, p2, k3, as in OpenCV; images as they were taken), and "
        "`depth_scale` (metres per unit) if it is not 0.001 for integers and 1 for floats."
    )


@dataclass(frozen=True)
class Observation:
    """One observation, with all that was said of it.

    Attributes:
        scene: Uploads of the scene cloud.
        grasp: Uploads of the grasp cloud.
        files: All uploaded files, in the order of `scene` and then `grasp`.
        workspace: Six numbers, or None.
        frame: Name of the scene's frame.
        stamp: When it was made, seconds since 1970, or None.
        timeout: Seconds that the caller waits, or None.
    """

    scene: Uploads
    grasp: Uploads
    files: tuple[Upload, ...]
    workspace: list[float] | None
    frame: str
    stamp: float | None
    timeout: float | None

    def header(self) -> dict[str, Any]:
        """What a worker is told."""
        return {
            "scene": asdict(self.scene),
            "grasp": asdict(self.grasp),
            "workspace": self.workspace,
            "frame": self.frame,
            "stamp": self.stamp,
        }

    async def contents(self) -> tuple[bytes, ...]:
        """The bytes of all files."""
        return tuple([await file.read() for file in self.files])

    def check_age(self, max_age: float) -> None:
        """Refuse an observation that is too old, or from the future.

        Raises:
            HTTPException: With status 409.
        """
        if self.stamp is None:
            return
        age = time.time() - self.stamp
        if age > max_age:
            raise HTTPException(
                409, f"the observation is {age:.1f} s old: at most {max_age:g} s; look again."
            )
        if age < -AHEAD:
            raise HTTPException(
                409, f"the observation is {-age:.1f} s in the future: set the two clocks alike."
            )


async def observation(
    scene: Annotated[UploadFile | None, File(description=f"The scene, {CLOUD}.")] = None,
    scene_depth: Annotated[list[UploadFile] | None, File(description=DEPTH)] = None,
    scene_color: Annotated[list[UploadFile] | None, File(description=COLOR)] = None,
    scene_cameras: Annotated[
        str, Form(max_length=20_000, description=_cameras("T_scene_camera"))
    ] = "",
    grasp: Annotated[
        UploadFile | None,
        File(description=f"What the gripper holds, in the gripper frame, {CLOUD}."),
    ] = None,
    grasp_depth: Annotated[list[UploadFile] | None, File(description=DEPTH)] = None,
    grasp_color: Annotated[list[UploadFile] | None, File(description=COLOR)] = None,
    grasp_cameras: Annotated[
        str,
        Form(
            max_length=20_000,
            description=_cameras("T_gripper_camera")
            + " What is farther than 0.3 m from the contact point is left out.",
        ),
    ] = "",
    workspace: Annotated[
        str | None,
        Form(
            pattern=SIX_NUMBERS,
            description="Where the contact point may go: lowest x, y, z and highest x, y, z, "
            "metres. The service's own workspace holds as well.",
            examples=["-0.3 -0.3 0 0.3 0.3 0.4"],
        ),
    ] = None,
    frame: Annotated[
        str, Form(max_length=100, description="Name of the scene's frame; comes back.")
    ] = "scene",
    stamp: Annotated[
        float | None,
        Form(
            allow_inf_nan=False,
            description="When the scene was observed, seconds since 1970. Comes back; observations "
            "that are too old are refused.",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        Form(
            ge=0.01, allow_inf_nan=False, description="Seconds that the caller waits for an answer."
        ),
    ] = None,
) -> Observation:
    """What was sent, in order."""
    parts = []
    files: list[Upload] = []
    for cloud, depth, color, cameras in (
        (scene, scene_depth or [], scene_color or [], scene_cameras),
        (grasp, grasp_depth or [], grasp_color or [], grasp_cameras),
    ):
        name = "" if cloud is None else _name(cloud)
        parts.append(
            Uploads(name, [_name(one) for one in depth], [_name(one) for one in color], cameras)
        )
        files += [*([] if cloud is None else [cloud]), *depth, *color]
    return Observation(
        parts[0], parts[1], tuple(files), _six_numbers(workspace), frame, stamp, timeout
    )


def _name(file: Upload) -> str:
    """The file's name, short and printable, for messages."""
    name = (file.filename or "").encode("ascii", "replace").decode()
    return "".join(letter for letter in name if letter.isprintable())[-60:] or "the upload"


def _six_numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        numbers = [float(word) for word in text.replace(",", " ").split()]
    except ValueError as error:
        raise HTTPException(422, f"workspace: {text[:60]!r}: need six numbers.") from error
    if not all(map(math.isfinite, numbers)) or not all(
        low < high for low, high in zip(numbers[:3], numbers[3:], strict=True)
    ):
        raise HTTPException(422, "workspace: need lower < upper on each axis.")
    return numbers

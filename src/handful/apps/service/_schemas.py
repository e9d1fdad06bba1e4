"""What the service's OpenAPI page says beside its routes: bodies, answers, examples."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from handful.answers import AnsweredPose, PoseAnswer, answer_schema, answer_to_json

Matrix = list[list[float]]


class Problem(BaseModel):
    """Why a request was not answered."""

    detail: str = Field(description="One sentence: what is wrong, and what would be right.")


class Health(BaseModel):
    """Whether the service can answer."""

    status: str = Field(description="`ok`, or `degraded` while a worker is being replaced.")
    version: str = Field(description="Version of handful.")
    workers: int = Field(description="Processes with loaded models.")
    busy: int = Field(description="Of them, those with a job.")
    waiting: int = Field(description="Requests that wait for a worker.")
    seconds: float = Field(description="Since the service began, seconds.")


class StepInfo(BaseModel):
    """One step of a task."""

    name: str = Field(description="Stands in the addresses of the step.")
    action: str = Field(description="`pick` closes the gripper, `place` opens it.")
    needs_grasp: bool = Field(description="Whether a cloud of what is held must be sent.")
    needs_colors: bool = Field(description="Whether clouds must have colours.")


class GripperInfo(BaseModel):
    """The gripper that poses are of."""

    name: str = Field(description="Empty if it is not a known hand.")
    opening: float = Field(description="Largest distance between its fingers, metres.")
    T_gripper_contact: Matrix = Field(
        description="Where it holds things: z is the approach, x the opening."
    )
    shape_known: bool = Field(description="Whether collisions of the hand are checked.")


class LimitsInfo(BaseModel):
    """What the service was told not to propose or accept."""

    workspace: list[float] | None = Field(description="Lowest and highest x, y, z, metres.")
    approach: list[float] | None = Field(description="Direction x, y, z and angle, radians.")
    table: float | None = Field(description="Height below which nothing may reach, metres.")
    least_confidence: float = Field(description="Poses of lower confidence are never chosen.")
    max_bytes: int = Field(description="Of a request.")
    max_points: int = Field(description="Of a cloud.")
    timeout: float = Field(description="Of a request, seconds.")
    max_age: float = Field(description="Of a stamped observation, seconds.")


class TaskInfo(BaseModel):
    """A task that the service knows."""

    run: str = Field(description="Name of the run's folder.")
    steps: list[StepInfo] = Field(description="In order.")
    gripper: GripperInfo
    limits: LimitsInfo


class TrackInfo(BaseModel):
    """A stream that is followed."""

    track: str = Field(description="Its name; stands in the address of its frames.")
    step: str = Field(description="Of the task.")
    idle_seconds: float = Field(description="Forgotten after so long without a frame, seconds.")


def example_answer(step: str, action: str) -> dict[str, Any]:
    """An answer for the page.

    Args:
        step: Name of a step.
        action: Its action.
    """
    pre, pose = np.diag([1.0, -1.0, -1.0, 1.0]), np.diag([1.0, -1.0, -1.0, 1.0])
    pre[:3, 3], pose[:3, 3] = (0.42, 0.05, 0.33), (0.42, 0.05, 0.25)
    one = AnsweredPose(pre, pose, pre, 0.08, 0.012, 11.5, 0.96, True, "")
    answer = PoseAnswer(
        step, action, "franka-hand", 0.08, True, 0, "", 0.5, (one,), 0.31, "base_link", 1.5
    )
    return dict(json.loads(answer_to_json(answer)))


def answer_response(step: str, action: str) -> dict[str, Any]:
    """How the page describes an answer, with an example of a step."""
    content = {"schema": answer_schema(), "example": example_answer(step, action)}
    return {
        "description": "Poses, feasible ones first, the best first.",
        "content": {"application/json": content},
    }


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The answers of these statuses, for the page."""
    return {status: {"model": Problem, "description": _SAYS[status]} for status in statuses}


_SAYS = {
    401: "The token is missing or wrong.",
    404: "There is no such step, stream or address.",
    408: "The request did not arrive in time.",
    409: "The stamp is too old, in the future, or not after that of the frame before.",
    413: "The request, cloud or image is too large.",
    421: "The service was addressed by a name that is not its own.",
    422: "Something in the request is wrong.",
    429: "Too many requests wait, or too many streams are followed.",
    503: "The worker ended, or the service is stopping: try again.",
    504: "It was not done in time.",
}

ALWAYS = (401, 421)
UPLOADS = (404, 408, 409, 413, 422, 429, 503, 504)

TRACK_LINKS = {
    name: {"operationId": name, "parameters": {"track": "$response.body#/track"}}
    for name in ("frame", "end_track")
}
"""What can be done with a stream that was begun."""


def name_steps(openapi: dict[str, Any], steps: list[str]) -> None:
    """Say in a description which steps there are.

    Args:
        openapi: The description; it is changed.
        steps: Their names.
    """
    for methods in openapi["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", []):
                if parameter["name"] == "step":
                    parameter["schema"]["enum"] = steps

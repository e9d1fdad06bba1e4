"""The service's addresses: what is asked is handed to a worker, what it answers is sent on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Form, HTTPException, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

import handful
from handful._checks import MAX_DERIVED_SEED
from handful._strict_json import parse_json
from handful.apps.service._config import ServiceConfig
from handful.apps.service._form import Observation, observation
from handful.apps.service._guard import Guard
from handful.apps.service._jobs import Message
from handful.apps.service._metrics import Metrics
from handful.apps.service._page import page_of
from handful.apps.service._pool import BusyError, LateError, LostError, Pool
from handful.apps.service._schemas import (
    ALWAYS,
    TRACK_LINKS,
    UPLOADS,
    Health,
    TaskInfo,
    TrackInfo,
    answer_response,
    name_steps,
    problems,
)
from handful.apps.service._tracks import Track, Tracks
from handful.errors import HandfulError, unknown_name_message

MOST_POSES = 1000
FARTHEST = 1000.0
"""Metres: no number of a pose is larger."""
Seen = Annotated[Observation, Depends(observation)]
StepName = Annotated[str, Path(max_length=64, description="Name of a step of the task.")]
TrackName = Annotated[str, Path(max_length=64, description="Name of a stream.")]
Number = Annotated[int, Form(ge=1, le=MOST_POSES, description="Poses at most.")]


class Front:
    """All routes.

    Args:
        config: What is served.
        pool: Does the work.
        described: What the workers say that they serve.
    """

    def __init__(self, config: ServiceConfig, pool: Pool, described: dict[str, Any]) -> None:
        self._config, self._pool, self._described = config, pool, described
        self.steps = [step["name"] for step in described["steps"]]
        self._tracks = Tracks(config.max_tracks, config.track_seconds)
        self._began = time.monotonic()
        self.metrics = Metrics(pool.figures)

    def health(self, response: Response) -> Health:
        """Whether the service can answer; needs no token. Status 503 while no worker is ready."""
        figures = self._pool.figures()
        ready = int(figures["ready"])
        response.status_code = 200 if ready else 503
        return Health(
            status="ok" if ready >= self._config.workers else "degraded",
            version=handful.__version__,
            workers=ready,
            busy=int(figures["busy"]),
            waiting=int(figures["waiting"]),
            seconds=time.monotonic() - self._began,
        )

    def tasks(self) -> list[TaskInfo]:
        """What is served: steps, gripper and limits."""
        config = self._config
        limits = {name: getattr(config, name) for name in _LIMITS}
        run = FilePath(config.run).resolve().name
        return [TaskInfo.model_validate({"run": run, "limits": limits, **self._described})]

    async def poses(
        self,
        request: Request,
        step: StepName,
        seen: Seen,
        n: Number = 16,
        seed: Annotated[
            int, Form(ge=0, le=MAX_DERIVED_SEED, description="The same seed gives the same poses.")
        ] = 0,
        beside: Annotated[
            bool,
            Form(description="Where no pose is feasible, look beside the good ones, too."),
        ] = True,
    ) -> Response:
        """Gripper poses for a step in a scene: a cloud, or depth images with their cameras.

        The request is a form (multipart/form-data).
        """
        self._check(step, seen)
        job = {"kind": "poses", "step": step, "n": n, "seed": seed, "beside": beside}
        return _response(await self._do(request, job, seen))

    async def ratings(
        self,
        request: Request,
        step: StepName,
        seen: Seen,
        poses: Annotated[
            str,
            Form(
                max_length=2_000_000, description="T_scene_gripper, a JSON list of 4 x 4 matrices."
            ),
        ],
    ) -> Response:
        """What the model thinks of poses from elsewhere, the best first."""
        self._check(step, seen)
        job = {"kind": "rate", "step": step, "poses": _matrices(poses)}
        return _response(await self._do(request, job, seen))

    def begin_track(self, step: StepName) -> TrackInfo:
        """Begin to follow a target from frame to frame."""
        self._check_step(step)
        name = self._tracks.begin(step)
        if name is None:
            raise HTTPException(
                429,
                f"{len(self._tracks)} streams are followed already: end one, or wait.",
                {"retry-after": "5"},
            )
        return TrackInfo(track=name, step=step, idle_seconds=self._config.track_seconds)

    async def frame(
        self,
        request: Request,
        track: TrackName,
        seen: Seen,
        n: Number = 1,
        budget: Annotated[
            float,
            Form(gt=0, le=10, allow_inf_nan=False, description="Seconds for the search."),
        ] = 0.1,
    ) -> Response:
        """The next frame of a stream; the search begins at the last answer."""
        found = self._track(track)
        seen.check_age(self._config.max_age)
        async with found.lock:
            if seen.stamp is not None and found.stamp is not None and seen.stamp <= found.stamp:
                raise HTTPException(
                    409, f"the frame's stamp {seen.stamp} is not after that of the last frame."
                )
            job = {"kind": "track", "step": found.step, "n": n, "budget": budget}
            answer = await self._do(request, {**job, "state": found.state}, seen)
            if answer.header["status"] == 200:
                found.state = answer.header["state"]
                found.stamp = seen.stamp if seen.stamp is not None else found.stamp
        return _response(answer)

    def end_track(self, track: TrackName) -> Response:
        """Forget a stream."""
        if not self._tracks.end(track):
            raise HTTPException(404, _NO_TRACK)
        return Response(status_code=204)

    def figures(self) -> Response:
        """Figures for Prometheus."""
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Response(self.metrics.text(), media_type=kind)

    # --- one request -----------------------------------------------------------------------

    def _check(self, step: str, seen: Observation) -> None:
        self._check_step(step)
        seen.check_age(self._config.max_age)

    def _check_step(self, step: str) -> None:
        if step not in self.steps:
            raise HTTPException(404, unknown_name_message("step", step, self.steps))

    def _track(self, name: str) -> Track:
        found = self._tracks.get(name)
        if found is None:
            raise HTTPException(404, _NO_TRACK)
        return found

    async def _do(self, request: Request, job: dict[str, Any], seen: Observation) -> Message:
        """Have a job done, unless it takes too long or the caller goes away."""
        longest = self._config.timeout
        seconds = longest if seen.timeout is None else min(seen.timeout, longest)
        message = Message({**job, **seen.header()}, await seen.contents())
        work = asyncio.ensure_future(self._pool.do(message, time.monotonic() + seconds))
        gone = asyncio.ensure_future(_caller_left(request))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return Message({"status": 499}, (b"{}",))  # which nobody reads
            answer = work.result()
        except BusyError as error:
            raise HTTPException(
                429, "all workers are busy and the queue is full: try again.", {"retry-after": "1"}
            ) from error
        except LateError as error:
            raise HTTPException(
                504, f"it was not done within {seconds:g} s: give a workspace, or more time."
            ) from error
        except LostError as error:
            raise HTTPException(
                503, "the worker ended before it was done: try again.", {"retry-after": "1"}
            ) from error
        finally:
            gone.cancel()
            work.cancel()
        if "seconds" in answer.header:
            self.metrics.inference(str(job["step"]), float(answer.header["seconds"]))
        return answer


_LIMITS = ("workspace", "approach", "table", "least_confidence", "max_bytes", "max_points",
           "timeout", "max_age")  # fmt: skip
_NO_TRACK = "there is no such stream, or no frame came for too long: begin a new one."


def create_app(config: ServiceConfig, pool: Pool, described: dict[str, Any]) -> Any:
    """The application: the routes behind their guard.

    Args:
        config: What is served.
        pool: Does the work; started.
        described: What `pool.start()` said.
    """
    front = Front(config, pool, described)
    app = FastAPI(
        title="handful",
        version=handful.__version__,
        description="Gripper poses from point clouds. Metres, radians, seconds; poses are "
        "T_scene_gripper, row by row.",
        docs_url=None,
        redoc_url=None,
    )
    always, uploads = problems(*ALWAYS), problems(*ALWAYS, *UPLOADS)
    first = described["steps"][0]
    answers = {200: answer_response(first["name"], first["action"]), **uploads}
    add = app.add_api_route
    add("/v1/health", front.health, responses={**problems(421), 503: {"model": Health}})
    add("/v1/tasks", front.tasks, responses=always)
    add("/v1/steps/{step}/poses", front.poses, methods=["POST"], responses=answers,
        response_class=JSONResponse)  # fmt: skip
    add("/v1/steps/{step}/ratings", front.ratings, methods=["POST"], responses=answers,
        response_class=JSONResponse)  # fmt: skip
    begun = {201: {"links": TRACK_LINKS}, **problems(*ALWAYS, 404, 408, 413, 422, 429)}
    add("/v1/steps/{step}/tracks", front.begin_track, methods=["POST"], status_code=201,
        responses=begun)  # fmt: skip
    add("/v1/tracks/{track}/frames", front.frame, methods=["POST"], responses=answers,
        response_class=JSONResponse, operation_id="frame")  # fmt: skip
    add("/v1/tracks/{track}", front.end_track, methods=["DELETE"], status_code=204,
        operation_id="end_track",
        responses=problems(*ALWAYS, 404, 422))  # fmt: skip
    add("/metrics", front.figures, include_in_schema=False)
    add("/", lambda: HTMLResponse(page_of(app.openapi(), front.steps)), include_in_schema=False)
    name_steps(app.openapi(), front.steps)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(StarletteHTTPException, _refused)
    return Guard(app, config, front.metrics)


async def _caller_left(request: Request) -> None:
    """Ends when the caller has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(answer: Message) -> Response:
    return Response(
        answer.blobs[0], status_code=int(answer.header["status"]), media_type="application/json"
    )


def _matrices(text: str) -> list[Any]:
    try:
        values = parse_json(text, "poses")
    except HandfulError as error:
        raise HTTPException(422, str(error)) from error
    fits = isinstance(values, list) and 1 <= len(values) <= MOST_POSES and all(map(_is_4x4, values))
    if not fits:
        raise HTTPException(422, f"poses: need a list of 1 to {MOST_POSES} 4 x 4 matrices, metres.")
    return values


def _is_4x4(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 4
        and all(
            isinstance(row, list)
            and len(row) == 4
            and all(type(x) in (int, float) and abs(x) <= FARTHEST for x in row)
            for row in value
        )
    )


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """One sentence for all that is wrong with a form."""
    assert isinstance(error, RequestValidationError)
    found = [f"{one['loc'][-1]}: {one['msg']}" for one in error.errors()]
    return JSONResponse({"detail": "; ".join(found)[:1000] + "."}, 422)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StarletteHTTPException)
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)

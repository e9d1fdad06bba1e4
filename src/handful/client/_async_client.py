"""`AsyncClient`: the calls of `Client`, to be awaited."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from handful.answers import PoseAnswer, answer_from_json
from handful.client._calls import (
    NO_FORM,
    TIMEOUT,
    Calls,
    checked,
    matrices,
    step_path,
    translated,
    wait_asked,
)
from handful.client._errors import RefusedError
from handful.client._questions import CloudLike, Question, question
from handful.client._retries import Retries


class AsyncClient(Calls):
    """The same as `Client`, to be awaited. Arguments and errors are the same.

    Args:
        url: Address of the service, for example `http://127.0.0.1:8720`.
        token: That the service asks for; empty for none.
        timeout: Seconds for a call, all retries included.
        retries: How often to ask again.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8720",
        token: str = "",
        timeout: float = TIMEOUT,
        retries: Retries = Retries(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(url, token, timeout, retries)
        self._http = httpx.AsyncClient(base_url=self.url, trust_env=False)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def health(self) -> dict[str, Any]:
        """Whether the service can answer."""
        return dict((await self._call("GET", "/v1/health")).json())

    async def tasks(self) -> list[dict[str, Any]]:
        """What is served: steps, gripper and limits."""
        return list((await self._call("GET", "/v1/tasks")).json())

    async def poses(
        self,
        step: str,
        scene: CloudLike,
        grasp: CloudLike | None = None,
        *,
        n: int = 16,
        seed: int = 0,
        workspace: Any | None = None,
        frame: str = "scene",
        stamp: float | None = None,
        beside: bool = True,
        timeout: float | None = None,
    ) -> PoseAnswer:
        """Where the gripper should go; see `Client.poses`. Cancelling it cancels the work, too."""
        asked = question(scene, grasp, n=n, seed=seed, workspace=workspace, frame=frame,
                         stamp=stamp, beside=beside)  # fmt: skip
        done = await self._call("POST", step_path(step, "poses"), asked, timeout)
        return answer_from_json(done.text)

    async def rate(
        self,
        step: str,
        T_scene_gripper: Any,
        scene: CloudLike,
        grasp: CloudLike | None = None,
        *,
        timeout: float | None = None,
    ) -> PoseAnswer:
        """What the model thinks of poses from elsewhere; see `Client.rate`."""
        asked = question(scene, grasp, poses=matrices(T_scene_gripper))
        done = await self._call("POST", step_path(step, "ratings"), asked, timeout)
        return answer_from_json(done.text)

    async def track(self, step: str) -> AsyncTrack:
        """Begin to follow a target from frame to frame."""
        done = await self._call("POST", step_path(step, "tracks"))
        return AsyncTrack(self, str(done.json()["track"]))

    async def _call(
        self,
        method: str,
        path: str,
        asked: Question = NO_FORM,
        timeout: float | None = None,
        repeatable: bool = True,
    ) -> httpx.Response:
        attempts = self.attempts(timeout, repeatable)
        while True:
            response = None
            try:
                options = self.options(asked, attempts.left)
                response = await self._http.request(method, path, **options)
                return checked(response)
            except httpx.HTTPError as error:
                pause = attempts.pause_after(translated(error, self.url))
            except RefusedError as error:
                pause = attempts.pause_after(error, wait_asked(response))
            await asyncio.sleep(pause)


class AsyncTrack:
    """A stream that the service follows; made by `AsyncClient.track`.

    Args:
        client: That asks.
        name: Of the stream.
    """

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client, self.name = client, name

    async def __aenter__(self) -> AsyncTrack:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def frame(
        self,
        scene: CloudLike,
        grasp: CloudLike | None = None,
        *,
        n: int = 1,
        budget: float = 0.1,
        frame: str = "scene",
        stamp: float | None = None,
        timeout: float | None = None,
    ) -> PoseAnswer:
        """The poses in the next frame; see `Track.frame`."""
        asked = question(scene, grasp, n=n, budget=budget, frame=frame, stamp=stamp)
        path = f"/v1/tracks/{self.name}/frames"
        done = await self._client._call("POST", path, asked, timeout, False)
        return answer_from_json(done.text)

    async def end(self) -> None:
        """Have the service forget the stream."""
        try:
            await self._client._call("DELETE", f"/v1/tracks/{self.name}")
        except RefusedError as error:
            if error.status != 404:
                raise

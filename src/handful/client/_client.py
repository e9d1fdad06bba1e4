"""`Client`: asks a service, and waits for its answers."""

from __future__ import annotations

import time
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
from handful.client._errors import ClientError, RefusedError
from handful.client._questions import CloudLike, Question, question
from handful.client._retries import Retries


class Client(Calls):
    """Asks a service, and waits for its answers. Threads may share one.

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
        self._http = httpx.Client(base_url=self.url, trust_env=False)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def health(self) -> dict[str, Any]:
        """Whether the service can answer."""
        return dict(self._call("GET", "/v1/health").json())

    def tasks(self) -> list[dict[str, Any]]:
        """What is served: steps, gripper and limits."""
        return list(self._call("GET", "/v1/tasks").json())

    def wait_until_ready(self, timeout: float = 60.0) -> None:
        """Wait until a service answers that was just started.

        Raises:
            ClientError: It does not within `timeout` seconds.
        """
        end = time.monotonic() + timeout
        while True:
            try:
                self.health()
                return
            except ClientError:
                if time.monotonic() >= end:
                    raise
            time.sleep(0.1)

    def poses(
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
        """Where the gripper should go.

        Args:
            step: Name of the step.
            scene: What is seen, metres; see `CloudLike`.
            grasp: What the gripper holds, in its frame, for steps that let it go.
            n: How many poses at most.
            seed: The same seed gives the same poses.
            workspace: Six numbers: lowest and highest x, y, z of the contact point.
            frame: Name of the scene's frame; comes back.
            stamp: When the scene was observed, seconds since 1970; comes back.
            beside: Where no pose is feasible, look beside the good ones.
            timeout: Seconds for this call.

        Raises:
            RefusedError: The request is wrong, or its observation too old.
            DeadlineError: There was no answer in time.
            ConnectionLostError: The service cannot be reached.
        """
        asked = question(scene, grasp, n=n, seed=seed, workspace=workspace, frame=frame,
                         stamp=stamp, beside=beside)  # fmt: skip
        done = self._call("POST", step_path(step, "poses"), asked, timeout)
        return answer_from_json(done.text)

    def rate(
        self,
        step: str,
        T_scene_gripper: Any,
        scene: CloudLike,
        grasp: CloudLike | None = None,
        *,
        timeout: float | None = None,
    ) -> PoseAnswer:
        """What the model thinks of poses from elsewhere [poses, 4, 4]; see `poses`."""
        asked = question(scene, grasp, poses=matrices(T_scene_gripper))
        done = self._call("POST", step_path(step, "ratings"), asked, timeout)
        return answer_from_json(done.text)

    def track(self, step: str) -> Track:
        """Begin to follow a target from frame to frame."""
        done = self._call("POST", step_path(step, "tracks"))
        return Track(self, str(done.json()["track"]))

    def _call(
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
                response = self._http.request(method, path, **options)
                return checked(response)
            except httpx.HTTPError as error:
                pause = attempts.pause_after(translated(error, self.url))
            except RefusedError as error:
                pause = attempts.pause_after(error, wait_asked(response))
            time.sleep(pause)


class Track:
    """A stream that the service follows; made by `Client.track`.

    Args:
        client: That asks.
        name: Of the stream.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client, self.name = client, name

    def __enter__(self) -> Track:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def frame(
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
        """The poses in the next frame; `budget` are the seconds for the search."""
        asked = question(scene, grasp, n=n, budget=budget, frame=frame, stamp=stamp)
        path = f"/v1/tracks/{self.name}/frames"
        return answer_from_json(self._client._call("POST", path, asked, timeout, False).text)

    def end(self) -> None:
        """Have the service forget the stream."""
        try:
            self._client._call("DELETE", f"/v1/tracks/{self.name}")
        except RefusedError as error:
            if error.status != 404:
                raise

"""What the two clients have in common: addresses, forms, and what answers mean."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np

from handful._checks import shown
from handful.client._errors import ClientError, ConnectionLostError, DeadlineError, RefusedError
from handful.client._questions import Question
from handful.client._retries import Attempts, Retries
from handful.errors import OptionError

TIMEOUT = 20.0
"""Seconds for a call, all retries included."""
NO_FORM = Question({}, [])


class Calls:
    """What both clients have in common: addresses, forms, and what answers mean.

    Args:
        url: Address of the service, for example `http://127.0.0.1:8720`.
        token: That the service asks for; empty for none.
        timeout: Seconds for a call, all retries included.
        retries: How often to ask again.
    """

    def __init__(self, url: str, token: str, timeout: float, retries: Retries) -> None:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise OptionError(f"url is {shown(url)}: need one like 'http://127.0.0.1:8720'.")
        if not isinstance(token, str):
            raise OptionError(f"token is {shown(token)}: need text; '' for none.")
        self.url, self.timeout, self.retries = url.rstrip("/"), timeout, retries
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        Attempts.within(retries, timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def attempts(self, timeout: float | None, repeatable: bool = True) -> Attempts:
        """The attempts at one call."""
        return Attempts.within(
            self.retries, self.timeout if timeout is None else timeout, repeatable
        )

    def options(self, asked: Question, left: float) -> dict[str, Any]:
        """Of one attempt; the service is told how long the caller waits."""
        if not asked.files:
            return {"timeout": left, "headers": self._headers}
        data = {**asked.fields, "timeout": repr(left)}
        # Fields are sent as parts of the form, too: a form with files is multipart/form-data.
        return {"data": data, "files": asked.files, "timeout": left, "headers": self._headers}


def checked(response: httpx.Response) -> httpx.Response:
    """The response of a request that was done.

    Raises:
        ClientError: It was not.
    """
    if response.is_success:
        return response
    try:
        sentence = str(json.loads(response.text)["detail"])
    except (ValueError, KeyError, TypeError):
        sentence = response.text[:200] or response.reason_phrase
    if response.status_code == 504:
        raise DeadlineError(sentence)
    raise RefusedError(f"{sentence} (status {response.status_code})", response.status_code)


def translated(error: httpx.HTTPError, url: str) -> ClientError:
    """What went wrong on the way, as an error of this package."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return ConnectionLostError(f"{url}: cannot be reached ({error}): does `handful serve` run?")
    if isinstance(error, httpx.TimeoutException):
        return DeadlineError(f"{url}: did not answer in time.")
    return ConnectionLostError(f"{url}: broke off ({type(error).__name__}: {error}).")


def wait_asked(response: httpx.Response | None) -> float:
    """Seconds that the service asked to wait."""
    value = "" if response is None else response.headers.get("retry-after", "")
    return min(float(value), 30.0) if value.isdigit() else 0.0


def step_path(step: str, what: str) -> str:
    """The address of something of a step."""
    if not isinstance(step, str) or not step:
        raise OptionError(f"step is {shown(step)}: need its name; `tasks` lists what is served.")
    return f"/v1/steps/{quote(step, safe='')}/{what}"


def matrices(T_scene_gripper: Any) -> str:
    """Poses as JSON."""
    try:
        poses = np.asarray(T_scene_gripper, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise OptionError("poses hold something else than numbers: need [poses, 4, 4].") from error
    if poses.ndim not in (2, 3) or poses.shape[-2:] != (4, 4):
        raise OptionError(f"poses have shape {poses.shape}: need matrices, [poses, 4, 4].")
    if not np.isfinite(poses).all():
        raise OptionError("poses hold numbers that are not finite.")
    return json.dumps(poses.reshape(-1, 4, 4).tolist())

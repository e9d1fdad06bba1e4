"""What stands before every request: who may call, under which name, with how much and how fast."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handful.apps._listening import ListeningNames
from handful.apps.service._config import ServiceConfig
from handful.apps.service._metrics import Metrics

OPEN_PATHS = ("/v1/health",)
"""Needs no token: a supervisor asks it, and it tells nothing of the task."""


class Guard:
    """Refuses requests before anything of them is read, and bounds what is read.

    Args:
        app: The application behind it.
        config: Token, hosts and limits.
        metrics: Counts requests.
    """

    def __init__(self, app: ASGIApp, config: ServiceConfig, metrics: Metrics) -> None:
        self._app, self._config, self._metrics = app, config, metrics
        self._names = ListeningNames(config.host, config.hosts)
        self._uploads = 0
        self._most_uploads = 2 * (config.workers + config.queue)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.monotonic(), 499

        async def counted_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                message = {**message, "headers": [*message["headers"], *_SAFE_HEADERS]}
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await _refuse(counted_send, *refusal)
            elif scope["method"] in ("POST", "PUT", "PATCH"):
                await self._upload(scope, receive, counted_send)
            else:
                await self._app(scope, receive, counted_send)
        finally:
            self._metrics.request(scope, status, time.monotonic() - start)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and sentence for a request that is not even read; None for others."""
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        host = headers.get("host", b"").decode("latin-1").lower()
        if not self._names.include(host):
            return 421, (
                f"this service is not {host[:100]!r}: call it by the name or address that it "
                "listens on, or allow the name with --allow-host."
            )
        if self._config.token and scope["path"] not in OPEN_PATHS:
            shown = headers.get("authorization", b"")
            need = b"Bearer " + self._config.token.encode()
            if not hmac.compare_digest(shown, need):
                return 401, "the token is missing or wrong: send `Authorization: Bearer TOKEN`."
        length = headers.get("content-length", b"0")
        if not length.isdigit() or len(length) > 18 or int(length) > self._config.max_bytes:
            return 413, self._too_large
        return None

    @property
    def _too_large(self) -> str:
        return f"the request is larger than {self._config.max_bytes} bytes: crop or thin the cloud."

    async def _upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a body in, as long as it is not too large, too slow, or one of too many."""
        if self._uploads >= self._most_uploads:
            await _refuse(send, 429, "too many requests at once: try again in a second.")
            return
        self._uploads += 1
        deadline = time.monotonic() + self._config.timeout
        received, whole = 0, False

        async def bounded() -> Message:
            nonlocal received, whole
            if whole:  # whoever asks now waits for the caller to leave
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(deadline - time.monotonic(), 0.01))
            except asyncio.TimeoutError as error:
                took = f"{self._config.timeout:g} s"
                raise HTTPException(408, f"the request did not arrive within {took}.") from error
            received += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if received > self._config.max_bytes:
                raise HTTPException(413, self._too_large)
            return message

        try:
            await self._app(scope, bounded, send)
        finally:
            self._uploads -= 1


_SAFE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
]


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"detail": sentence}).encode()
    headers: list[tuple[bytes, Any]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 429:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

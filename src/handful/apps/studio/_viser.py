"""The drawing library behind our guard, on our socket, with a limit for uploads.

viser has no hooks for these, so they are put in where it starts to listen. All that we use of its
inside stands in this module; the version that it was tested with is pinned in constraints.txt.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import viser
import websockets.asyncio.server
from viser import _messages
from viser.infra import _infra
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from handful.apps.studio._guard import PageGuard

MOST_UPLOADS = 2
"""Files on their way at once."""
MOST_MESSAGE = 4 * 2**20
"""Bytes of one message from a page; uploads come in parts of half a megabyte."""

STOPPING = 10.0
"""Seconds that closing the sockets of the pages may take."""

_STARTING = threading.Lock()


def client_folder() -> Path:
    """The files of the library's page."""
    return Path(viser.__file__).parent / "client" / "build"


def start_viser(
    listener: socket.socket, guard: PageGuard, max_bytes: int
) -> tuple[viser.ViserServer, Callable[[], None]]:
    """Start to serve pages; from now on the socket listens.

    Args:
        listener: A bound socket.
        guard: Looks at every request.
        max_bytes: Of one upload.

    Returns:
        The server, and a function that stops it and waits until it has stopped.
    """
    host, port = listener.getsockname()[:2]
    ended = threading.Event()
    with _STARTING, _our_ways(listener, guard, ended), contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(host=host, port=port, label="handful studio", verbose=False)
    handlers = server._websock_server._incoming_handlers
    # It would open a tunnel to a server on the internet for whoever asks.
    for message in (_messages.ShareUrlRequest, _messages.ShareUrlDisconnect):
        handlers.pop(message, None)
    UploadLimits(server, max_bytes).put_in()
    return server, partial(_stop, server, ended)


def taken_upload(button: Any) -> viser.UploadedFile:
    """The file that was uploaded last; the button, which would keep it for ever, forgets it."""
    file: viser.UploadedFile = button.value
    button._impl.value = viser.UploadedFile("", b"")
    return file


def _stop(server: viser.ViserServer, ended: threading.Event) -> None:
    """Stop, and close the library's event loop, which it leaves open."""
    loop = server._websock_server._background_event_loop
    server.stop()
    end = time.monotonic() + STOPPING
    ended.wait(STOPPING)
    while loop is not None and loop.is_running() and time.monotonic() < end:
        time.sleep(0.01)
    if loop is not None and not loop.is_running():
        loop.close()


@contextmanager
def _our_ways(listener: socket.socket, guard: PageGuard, ended: threading.Event) -> Iterator[None]:
    """While the library starts: it listens on our socket, behind our guard, and builds nothing."""
    their_serve = websockets.asyncio.server.serve
    their_build = viser._client_autobuild.ensure_client_is_built

    def serve(handler: Any, host: Any, port: Any, **options: Any) -> Any:
        theirs = options.pop("process_request")

        def process_request(connection: Any, request: Request) -> Response | None:
            answer = guard.answer(request.path, request.headers)
            if answer is None:
                return theirs(connection, request)
            headers = Headers(**answer.headers)
            return Response(answer.status.value, answer.status.phrase, headers, answer.body)

        options.update(sock=listener, max_size=MOST_MESSAGE, process_request=process_request)
        return _ended_well(their_serve(handler, **options), ended)

    websockets.asyncio.server.serve = serve  # type: ignore[assignment]
    viser._client_autobuild.ensure_client_is_built = lambda: None
    _infra.rich = SimpleNamespace(print=lambda words: None)  # type: ignore[attr-defined, assignment]
    try:
        yield
    finally:
        websockets.asyncio.server.serve = their_serve
        viser._client_autobuild.ensure_client_is_built = their_build


@asynccontextmanager
async def _ended_well(serving: Any, ended: threading.Event) -> AsyncIterator[Any]:
    """Serve; at the end, let no task of the library be left behind, which Python complains of."""
    try:
        async with serving as server:
            yield server
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        ended.set()


class UploadLimits:
    """Refuses files that are too large before anything of them is kept, and forgets broken ones.

    Args:
        server: Whose uploads.
        max_bytes: Of one file.
    """

    def __init__(self, server: Any, max_bytes: int) -> None:
        self._server, self._max_bytes = server, max_bytes
        self._handlers = server._websock_server._incoming_handlers
        self._states = server.gui._current_file_upload_states
        self._sender: dict[str, int] = {}

    def put_in(self) -> None:
        """Stand before the library's own handlers."""
        self._starts = self._handlers[_messages.FileTransferStart]
        self._parts = self._handlers[_messages.FileTransferPart]
        self._handlers[_messages.FileTransferStart] = [self._start]
        self._handlers[_messages.FileTransferPart] = [self._part]
        self._server.on_client_disconnect(self._left)

    def _start(self, client_id: Any, message: Any) -> None:
        size = message.size_bytes
        fits = 0 < size <= self._max_bytes and 0 < message.part_count <= 100_000
        if fits and len(self._states) < MOST_UPLOADS:
            self._sender[message.transfer_uuid] = client_id
            for handler in self._starts:
                handler(client_id, message)
            return
        if size == 0:
            told = "The file is empty."
        elif fits:
            told = f"{MOST_UPLOADS} files are on their way: wait for them."
        else:
            most = f"{self._max_bytes / 2**20:.0f} MiB (--max-megabytes)"
            told = f"The file has {size / 2**20:.1f} MiB: at most {most}."
        self._refuse(client_id, message, max(size, 0), told)

    def _part(self, client_id: Any, message: Any) -> None:
        state = self._states.get(message.transfer_uuid)
        if state is None:
            return
        whole = state["transferred_bytes"] + len(message.content)
        known = message.part in state["parts"] or not 0 <= message.part < state["part_count"]
        done = len(state["parts"]) + 1 == state["part_count"]
        if known or whole > state["total_bytes"] or done != (whole == state["total_bytes"]):
            self._forget(message.transfer_uuid)
            told = "Its parts are not what was announced: upload it again."
            self._refuse(client_id, message, state["total_bytes"], told)
            return
        for handler in self._parts:
            handler(client_id, message)
        if done:
            self._sender.pop(message.transfer_uuid, None)

    def _left(self, client: Any) -> None:
        """A page is gone, and with it the rest of its files."""
        for transfer, sender in list(self._sender.items()):
            if sender == client.client_id:
                self._forget(transfer)

    def _forget(self, transfer: str) -> None:
        self._states.pop(transfer, None)
        self._sender.pop(transfer, None)

    def _refuse(self, client_id: Any, message: Any, size: int, sentence: str) -> None:
        """Tell the page, which would wait for ever and let nothing else be uploaded."""
        client = self._server.get_clients().get(client_id)
        if client is None:
            return
        transfer = message.transfer_uuid
        send = client.gui._websock_interface.queue_message
        if size:  # the page's button waits until all bytes have come
            send(
                _messages.FileTransferPartAck(
                    source_component_uuid=message.source_component_uuid,
                    transfer_uuid=transfer,
                    transferred_bytes=size,
                    total_bytes=size,
                )
            )
        send(_messages.RemoveNotificationMessage(f"upload-{transfer}"))
        client.add_notification("Not uploaded", sentence, color="red", auto_close=8000)

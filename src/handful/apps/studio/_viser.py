"""The drawing library behind our guard, on our socket, with a limit for uploads.

viser has no hooks for these, so they are put in where it starts to listen. All that we use of its
inside stands in this module; the version that it was tested with is pinned in constraints.txt.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import viser
import websockets.asyncio.server
from viser import _messages
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from handful.apps.studio._guard import PageGuard

MOST_UPLOADS = 4
"""Files on their way at once."""
MOST_MESSAGE = 4 * 2**20
"""Bytes of one message from a page; uploads come in parts of half a megabyte."""

_STARTING = threading.Lock()


def client_folder() -> Path:
    """The files of the library's page."""
    return Path(viser.__file__).parent / "client" / "build"


def start_viser(listener: socket.socket, guard: PageGuard, max_bytes: int) -> viser.ViserServer:
    """Start to serve pages; from now on the socket listens.

    Args:
        listener: A bound socket.
        guard: Looks at every request.
        max_bytes: Of one upload.
    """
    host, port = listener.getsockname()[:2]
    with _STARTING, _our_ways(listener, guard), contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(host=host, port=port, label="handful studio", verbose=False)
    handlers = server._websock_server._incoming_handlers
    # It would open a tunnel to a server on the internet for whoever asks.
    for message in (_messages.ShareUrlRequest, _messages.ShareUrlDisconnect):
        handlers.pop(message, None)
    _limit_uploads(server, max_bytes)
    return server


@contextmanager
def _our_ways(listener: socket.socket, guard: PageGuard) -> Iterator[None]:
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
        return their_serve(handler, **options)

    websockets.asyncio.server.serve = serve  # type: ignore[assignment]
    viser._client_autobuild.ensure_client_is_built = lambda: None
    try:
        yield
    finally:
        websockets.asyncio.server.serve = their_serve
        viser._client_autobuild.ensure_client_is_built = their_build


def _limit_uploads(server: viser.ViserServer, max_bytes: int) -> None:
    """Refuse files that are too large before anything of them is kept."""
    gui = server.gui
    handlers = server._websock_server._incoming_handlers
    theirs = handlers[_messages.FileTransferStart]

    def start(client_id: Any, message: _messages.FileTransferStart) -> None:
        states = gui._current_file_upload_states
        fits = 0 < message.size_bytes <= max_bytes and 0 < message.part_count <= 100_000
        if fits and len(states) < MOST_UPLOADS:
            for handler in theirs:
                handler(client_id, message)
            return
        client = server.get_clients().get(client_id)
        if client is not None:
            client.add_notification(
                "Not uploaded",
                f"The file has {message.size_bytes / 2**20:.0f} MiB: at most "
                f"{max_bytes / 2**20:.0f} MiB, and {MOST_UPLOADS} files at once.",
                color="red",
            )

    handlers[_messages.FileTransferStart] = [start]  # type: ignore[list-item]

"""Where programs with a page or a service listen, and who may call them there."""

from __future__ import annotations

import hmac
import ipaddress
import os
import socket
from pathlib import Path

from handful._files import read_bytes
from handful.errors import FileFormatError, OptionError

TOKEN_VARIABLE = "HANDFUL_TOKEN"
SHORTEST_TOKEN = 16
"""Characters."""
LARGEST_TOKEN_FILE = 4096
"""Bytes; a token goes into one line of a request's head."""
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_listening(host: str, token: str, what: str) -> None:
    """Refuse an address that others can reach without a token, and a token that can be guessed.

    Args:
        host: Address to listen on.
        token: That callers must show; empty for none.
        what: What other machines could do without one, for the message.

    Raises:
        OptionError: One sentence.
    """
    if not is_loopback(host) and not token:
        raise OptionError(
            f"--host {host}: other machines could {what}: give a token with --token-file FILE, or "
            f"in the variable {TOKEN_VARIABLE}, or listen on 127.0.0.1."
        )
    if token and (
        len(token) < SHORTEST_TOKEN
        or not token.isascii()
        or any(letter.isspace() for letter in token)
    ):
        raise OptionError(
            f"the token has {len(token)} characters: need {SHORTEST_TOKEN} or more ASCII "
            "characters without spaces, for example from `openssl rand -hex 32`."
        )


def read_token(file: Path | None) -> str:
    """The token of a file, or of the variable HANDFUL_TOKEN; empty if there is none.

    Raises:
        FileFormatError: The file cannot be read, or is none.
    """
    if file is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip()
    try:
        return read_bytes(file, LARGEST_TOKEN_FILE).decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{file}: cannot be read as a token: {error}.") from error


def same_token(shown: str, token: str) -> bool:
    """Whether a token is the right one, in a time that tells nothing."""
    return hmac.compare_digest(shown.encode("utf-8", "replace"), token.encode())


class ListeningNames:
    """The names under which callers may address a program.

    A page elsewhere can make a browser call this machine under a name of its own: such calls are
    known by that name.

    Args:
        host: Address that is listened on.
        more: Further names.
    """

    def __init__(self, host: str, more: tuple[str, ...] = ()) -> None:
        own = f"[{host}]" if ":" in host else host
        names = (*LOOPBACK_NAMES, own) if is_loopback(host) else (own,)
        self._names = {name.lower() for name in (*names, *more)}
        self._any = host in ("0.0.0.0", "::") and not more

    def include(self, host: str) -> bool:
        """Whether a caller's `Host` is one of them, with or without a port."""
        name = host.lower()
        name = name if name.endswith("]") else name.rsplit(":", 1)[0]
        return self._any or name in self._names


def bound(host: str, port: int) -> socket.socket:
    """A socket at an address, which does not listen yet.

    Raises:
        OptionError: The address cannot be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise OptionError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}: choose another "
            "with --host and --port; 0 takes any free port."
        ) from error
    return listener


def web_address(listener: socket.socket) -> str:
    """The address of a bound socket, for a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"

"""What stands before every request of a page: who may call, under which name, and for what.

The library that draws the pages serves files and a socket to whoever asks, by any path, and its
own page reports to a third party. So nothing reaches it that was not looked at here, and the page
is ours.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from handful.apps._listening import ListeningNames, same_token
from handful.apps.studio._config import StudioConfig
from handful.errors import OptionError

COOKIE = "handful_studio"
KEY_HEADER = "X-Handful-Studio"
"""A page elsewhere cannot make a browser send it: that would need our consent first."""
KEYS = (
    "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "snap", "undo", "redo",
    "grab", "release",
)  # fmt: skip
_PAGE = Path(__file__).parent / "page"
_OWN_FILES = {
    "/studio/calm.js": ("calm.js", "text/javascript"),
    "/studio/keys.js": ("keys.js", "text/javascript"),
    "/studio/studio.css": ("studio.css", "text/css"),
}
_SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    # The library compiles the words of its panels in the page: it needs `unsafe-eval`.
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-eval'; style-src "
    "'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' "
    "ws: wss: data: blob:; worker-src 'self' blob:; frame-ancestors 'none'; form-action 'self'",
}

KeyHandler = Callable[[str, bool, bool], None]


@dataclass(frozen=True)
class Answer:
    """What a request gets instead of being let through.

    Attributes:
        status: Of HTTP.
        body: Its content.
        kind: Of the content.
        more: Further headers.
    """

    status: HTTPStatus
    body: bytes
    kind: str = "text/plain; charset=utf-8"
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def headers(self) -> dict[str, str]:
        """All headers."""
        length = {"Content-Length": str(len(self.body)), "Content-Type": self.kind}
        return {**length, **_SAFE_HEADERS, **self.more}


class PageGuard:
    """Answers or refuses requests before the drawing library sees them.

    Args:
        config: Address, token and names.
        client: The folder of the library's page.
        on_key: Told the keys that pages send: name, shift, alt.
    """

    def __init__(self, config: StudioConfig, client: Path, on_key: KeyHandler) -> None:
        self._names = ListeningNames(config.host, config.hosts)
        self._token, self._on_key = config.token, on_key
        self._cookie = hmac.new(config.token.encode(), b"a page", hashlib.sha256).hexdigest()
        self._files = frozenset(
            "/" + file.relative_to(client).as_posix()
            for file in client.rglob("*")
            if file.is_file()
        ) - {"/index.html"}
        self._index = index_page((client / "index.html").read_text(encoding="utf-8"))

    def answer(self, target: str, headers: Mapping[str, str]) -> Answer | None:
        """What a request gets; None lets it through to the library.

        Args:
            target: Path and query.
            headers: Of the request; names in any case.
        """
        host = headers.get("Host", "")
        if not self._names.include(host):
            return _refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                "this studio is not known by that name: open it under the address that it printed, "
                "or allow the name with --allow-host.",
            )
        origin = headers.get("Origin", "")
        if origin and urlsplit(origin).netloc.lower() != host.lower():
            return _refused(HTTPStatus.FORBIDDEN, "a page of another address may not call this.")
        path, _, query = target.partition("?")
        if self._token:
            shown = parse_qs(query).get("token", [""])[0]
            if shown and same_token(shown, self._token):
                return self._welcome()
            if not self._has_cookie(headers):
                return _asked_for_token(bool(shown))
        return self._allowed(path, query, headers)

    def _allowed(self, path: str, query: str, headers: Mapping[str, str]) -> Answer | None:
        if headers.get("Upgrade", "").lower() == "websocket":
            # The library looks for exactly this word, and takes all else for a file.
            right = headers.get("Upgrade") == "websocket" and path == "/"
            return None if right else _refused(HTTPStatus.NOT_FOUND, "no such address.")
        if path in ("/", "/index.html"):
            return Answer(HTTPStatus.OK, self._index, "text/html; charset=utf-8")
        if path in _OWN_FILES:
            name, kind = _OWN_FILES[path]
            return Answer(HTTPStatus.OK, (_PAGE / name).read_bytes(), kind)
        if path == "/studio/key":
            return self._key(query, headers)
        return None if path in self._files else _refused(HTTPStatus.NOT_FOUND, "no such address.")

    def _key(self, query: str, headers: Mapping[str, str]) -> Answer:
        said = {name: values[0] for name, values in parse_qs(query).items()}
        if headers.get(KEY_HEADER) != "1" or said.get("name") not in KEYS:
            return _refused(HTTPStatus.BAD_REQUEST, "that is no key of the studio.")
        self._on_key(said["name"], said.get("shift") == "1", said.get("alt") == "1")
        return Answer(HTTPStatus.OK, b"")

    def _has_cookie(self, headers: Mapping[str, str]) -> bool:
        try:
            cookie = SimpleCookie(headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and same_token(cookie.value, self._cookie)

    def _welcome(self) -> Answer:
        """Give the page a cookie, and take the token out of its address."""
        cookie = f"{COOKIE}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
        return Answer(HTTPStatus.SEE_OTHER, b"", more={"Location": "/", "Set-Cookie": cookie})


def index_page(theirs: str) -> bytes:
    """Our page with the scripts and styles of the library's, and nothing else of it.

    Raises:
        OptionError: The library's page is another than we know.
    """
    script = re.search(r'src="(\./assets/index-[\w-]+\.js)"', theirs)
    style = re.search(r'href="(\./assets/index-[\w-]+\.css)"', theirs)
    if script is None or style is None:
        raise OptionError("this version of viser has another page than ours: install viser 0.2.23.")
    assets = (
        f'<script type="module" crossorigin src="{script[1]}"></script>\n    '
        f'<link rel="stylesheet" crossorigin href="{style[1]}" />'
    )
    return (_PAGE / "index.html").read_text(encoding="utf-8").replace("ASSETS", assets).encode()


def _refused(status: HTTPStatus, sentence: str) -> Answer:
    return Answer(status, f"{sentence}\n".encode())


def _asked_for_token(wrong: bool) -> Answer:
    told = "That token is wrong." if wrong else "This studio needs its token."
    page = (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>handful studio</title>"
        "<body style='font-family: sans-serif; margin: 4em auto; max-width: 30em'>"
        f"<h1>handful studio</h1><p>{told}</p><form action='/' method='get'>"
        "<input name='token' type='password' autofocus aria-label='Token'> <button>Open</button>"
        "</form></body></html>"
    )
    return Answer(HTTPStatus.UNAUTHORIZED, page.encode(), "text/html; charset=utf-8")

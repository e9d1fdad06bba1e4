"""Who may open the studio's page, under which name, and which files it gives away."""

from pathlib import Path

import pytest

from handful.apps._listening import ListeningNames
from handful.apps.studio._config import StudioConfig, check_studio
from handful.apps.studio._guard import COOKIE, KEY_HEADER, PageGuard, index_page
from handful.errors import OptionError

TOKEN = "a-token-of-twenty-letters"
INDEX = (
    '<script src="https://elsewhere.example/spy.js"></script>'
    '<script type="module" crossorigin src="./assets/index-Ab_1-2.js"></script>'
    '<link rel="stylesheet" crossorigin href="./assets/index-Cd3.css">'
)
LOCAL = {"Host": "127.0.0.1:8730"}


def guard_of(tmp_path: Path, keys: list | None = None, **options: object) -> PageGuard:
    client = tmp_path / "client"
    (client / "assets").mkdir(parents=True, exist_ok=True)
    (client / "index.html").write_text(INDEX)
    (client / "assets" / "index-Ab_1-2.js").write_text("1")
    (tmp_path / "secret").write_text("secret")
    pressed = [] if keys is None else keys
    config = StudioConfig(folder="unused", **options)
    return PageGuard(config, client, lambda *key: pressed.append(key))


def status(guard: PageGuard, target: str, **headers: str) -> int | None:
    answer = guard.answer(target, {**LOCAL, **headers})
    return None if answer is None else answer.status.value


def test_the_page_is_ours_and_calls_nobody(tmp_path: Path):
    page = guard_of(tmp_path).answer("/", LOCAL)
    assert page is not None
    assert b"elsewhere.example" not in page.body
    assert b"./assets/index-Ab_1-2.js" in page.body
    assert b"./assets/index-Cd3.css" in page.body
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]


def test_another_page_of_the_library_is_told():
    with pytest.raises(OptionError, match=r"viser 0\.2\.23"):
        index_page("<html></html>")


def test_only_files_of_the_page_are_given_away(tmp_path: Path):
    guard = guard_of(tmp_path)
    assert status(guard, "/assets/index-Ab_1-2.js") is None
    for path in (
        "/../secret",
        "/assets/../../secret",
        "//etc/passwd",
        "/etc/passwd",
        "/%2e%2e/secret",
    ):
        assert status(guard, path) == 404


def test_other_names_and_other_pages_are_refused(tmp_path: Path):
    guard = guard_of(tmp_path)
    assert status(guard, "/", Host="evil.example:8730") == 421
    socket = {"Upgrade": "websocket"}
    assert status(guard, "/", **socket, Origin="http://evil.example") == 403
    assert status(guard, "/", **socket, Origin="http://127.0.0.1:9999") == 403
    assert status(guard, "/", **socket, Origin="http://127.0.0.1:8730") is None
    assert status(guard, "/", **socket) is None  # no browser
    assert status(guard, "/x", **socket) == 404
    assert status(guard, "/", Upgrade="WebSocket") == 404


def test_a_wrong_token_is_refused_and_the_right_one_becomes_a_cookie(tmp_path: Path):
    guard = guard_of(tmp_path, token=TOKEN)
    for target in ("/", "/?token=wrong", "/assets/index-Ab_1-2.js", "/studio/key?name=snap"):
        assert status(guard, target) == 401
    assert status(guard, "/", Upgrade="websocket") == 401
    assert status(guard, "/", Cookie=f"{COOKIE}=wrong") == 401
    assert status(guard, "/", Cookie=f"{COOKIE}={TOKEN}") == 401
    welcome = guard.answer(f"/?token={TOKEN}", LOCAL)
    assert welcome is not None
    assert (welcome.status.value, welcome.more["Location"]) == (303, "/")
    cookie = welcome.more["Set-Cookie"].split(";")[0]
    assert TOKEN not in cookie
    assert status(guard, "/", Cookie=cookie) == 200
    assert status(guard, "/", Upgrade="websocket", Cookie=cookie) is None


def test_keys_come_from_our_page_only(tmp_path: Path):
    keys: list = []
    guard = guard_of(tmp_path, keys)
    assert status(guard, "/studio/key?name=snap&shift=1") == 400
    assert status(guard, "/studio/key?name=F1", **{KEY_HEADER: "1"}) == 400
    assert status(guard, "/studio/key?name=snap&shift=1", **{KEY_HEADER: "1"}) == 200
    assert keys == [("snap", True, False)]


def test_other_machines_need_a_token():
    with pytest.raises(OptionError, match="--token-file"):
        check_studio(StudioConfig(folder="x", host="0.0.0.0"))
    with pytest.raises(OptionError, match="16 or more"):
        check_studio(StudioConfig(folder="x", host="0.0.0.0", token="short"))
    check_studio(StudioConfig(folder="x", host="0.0.0.0", token=TOKEN))
    with pytest.raises(OptionError, match="max_bytes"):
        check_studio(StudioConfig(folder="x", max_bytes=0))


def test_names_of_an_address():
    names = ListeningNames("127.0.0.1", ("robot.local",))
    assert all(map(names.include, ["localhost:1", "127.0.0.1", "[::1]:80", "Robot.local:8730"]))
    assert not any(map(names.include, ["evil", "", "127.0.0.1.evil:80"]))
    assert ListeningNames("0.0.0.0").include("anything:1")
    assert not ListeningNames("0.0.0.0", ("robot",)).include("anything:1")

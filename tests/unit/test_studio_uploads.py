"""Uploads of pages: what is announced is what may come, and nothing is kept of the rest."""

from types import SimpleNamespace

import pytest

viser = pytest.importorskip("viser", reason="the studio needs the extra `view`")
messages = pytest.importorskip("viser._messages")
ours = pytest.importorskip("handful.apps.studio._viser")


class Pages:
    """A server of pages, as far as uploads see it: keeps parts as the library does."""

    def __init__(self) -> None:
        self.states: dict[str, dict] = {}
        self.whole: list[bytes] = []
        self.said: list[str] = []
        self.sent: list[object] = []
        self.gui = SimpleNamespace(_current_file_upload_states=self.states)
        self._websock_server = SimpleNamespace(
            _incoming_handlers={
                messages.FileTransferStart: [self._start],
                messages.FileTransferPart: [self._part],
            }
        )
        self.limits = ours.UploadLimits(self, max_bytes=100)
        self.limits.put_in()

    def on_client_disconnect(self, work) -> None:
        self.leave = lambda number: work(SimpleNamespace(client_id=number))

    def get_clients(self) -> dict:
        socket = SimpleNamespace(queue_message=self.sent.append)
        page = SimpleNamespace(
            add_notification=lambda _, words, **__: self.said.append(words),
            gui=SimpleNamespace(_websock_interface=socket),
        )
        return {1: page}

    def _start(self, client_id: int, message) -> None:
        self.states[message.transfer_uuid] = {
            "parts": {},
            "part_count": message.part_count,
            "total_bytes": message.size_bytes,
            "transferred_bytes": 0,
        }

    def _part(self, client_id: int, message) -> None:
        state = self.states[message.transfer_uuid]
        state["parts"][message.part] = message.content
        state["transferred_bytes"] += len(message.content)
        if state["transferred_bytes"] == state["total_bytes"]:
            self.whole.append(b"".join(state["parts"][n] for n in range(state["part_count"])))
            del self.states[message.transfer_uuid]

    def start(self, name: str, size: int, parts: int) -> None:
        message = SimpleNamespace(
            transfer_uuid=name, size_bytes=size, part_count=parts, source_component_uuid="button"
        )
        for handler in self._websock_server._incoming_handlers[messages.FileTransferStart]:
            handler(1, message)

    def part(self, name: str, number: int, content: bytes) -> None:
        message = SimpleNamespace(
            transfer_uuid=name, part=number, content=content, source_component_uuid="button"
        )
        for handler in self._websock_server._incoming_handlers[messages.FileTransferPart]:
            handler(1, message)


def test_a_file_that_is_what_was_announced_comes_through_in_any_order():
    pages = Pages()
    pages.start("a", 5, 2)
    pages.part("a", 1, b"de")
    pages.part("a", 0, b"abc")
    assert pages.whole == [b"abcde"]
    assert not pages.states
    assert not pages.said


@pytest.mark.parametrize(
    ("size", "parts", "told"),
    [
        (101, 1, "at most"),
        (0, 1, "is empty"),
        (-5, 1, "at most"),
        (10, 0, "at most"),
        (10, 10**9, "at most"),
    ],
)
def test_a_file_that_is_too_large_is_not_begun(size: int, parts: int, told: str):
    pages = Pages()
    pages.start("a", size, parts)
    pages.part("a", 0, b"x")
    assert not pages.states
    assert not pages.whole
    assert told in pages.said[0]
    assert_page_goes_on(pages, size)


@pytest.mark.parametrize(
    "parts",
    [[(0, b"x" * 11)], [(0, b"abc"), (0, b"abc")], [(7, b"abc")], [(0, b"a"), (1, b"b")]],
    ids=["more bytes", "twice", "no such part", "fewer bytes"],
)
def test_parts_that_were_not_announced_end_an_upload(parts: list[tuple[int, bytes]]):
    pages = Pages()
    pages.start("a", 10, 2)
    for number, content in parts:
        pages.part("a", number, content)
    assert not pages.states
    assert not pages.whole
    assert "not what was announced" in pages.said[0]
    assert_page_goes_on(pages, 10)


def assert_page_goes_on(pages: Pages, size: int) -> None:
    """Its button is free, and nothing says that the file is on its way."""
    acks = [one for one in pages.sent if isinstance(one, messages.FileTransferPartAck)]
    assert all(one.transferred_bytes == one.total_bytes for one in acks)
    assert bool(acks) == (size > 0)  # of an empty file the page waits for nothing
    assert pages.sent[-1] == messages.RemoveNotificationMessage("upload-a")


def test_a_page_that_goes_leaves_room_for_others():
    pages = Pages()
    for number in range(ours.MOST_UPLOADS):
        pages.start(str(number), 10, 2)
    pages.start("one more", 10, 2)
    assert len(pages.states) == ours.MOST_UPLOADS
    assert "wait for them" in pages.said[0]
    pages.leave(1)
    assert not pages.states


def test_a_button_does_not_keep_a_file():
    file = viser.UploadedFile("it.ply", b"x")
    state = SimpleNamespace(value=file)
    button = SimpleNamespace(value=file, _impl=state)
    assert ours.taken_upload(button) is file
    assert state.value.content == b""

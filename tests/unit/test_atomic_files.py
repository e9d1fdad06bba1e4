"""Atomic writing: the old content or the new, and nothing left behind."""

import errno
import os

import pytest

from handful._files import atomic_write_bytes, atomic_write_text, atomic_writer
from handful.errors import FileFormatError


def names(folder):
    return sorted(item.name for item in folder.iterdir())


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "a.json"
    atomic_write_text(path, "é\n")
    assert path.read_bytes() == "é\n".encode()
    atomic_write_bytes(str(path), b"\x00new")
    assert path.read_bytes() == b"\x00new"
    assert names(tmp_path) == ["a.json"]


def test_new_files_have_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_bytes(b"")
    atomic_write_bytes(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    atomic_write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_nothing_is_seen_before_the_block_ends(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with atomic_writer(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("failure", [RuntimeError("bug"), KeyboardInterrupt()])
def test_a_failing_block_changes_nothing(tmp_path, failure):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail() -> None:
        with atomic_writer(path) as file:
            file.write(b"half")
            raise failure

    with pytest.raises(type(failure)):
        fail()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_changes_nothing(tmp_path, monkeypatch, step):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(FileFormatError, match="a: cannot be written: No space left on device"):
        atomic_write_bytes(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_places_where_no_file_can_be(tmp_path):
    with pytest.raises(FileFormatError, match=r"the folder .*/no does not exist; make it first"):
        atomic_write_bytes(tmp_path / "no" / "a", b"")
    with pytest.raises(FileFormatError, match="is a folder; give the path of a file"):
        atomic_write_bytes(tmp_path, b"")
    with pytest.raises(FileFormatError, match="cannot be written: File name too long"):
        atomic_write_bytes(tmp_path / ("n" * 300), b"")
    with pytest.raises(FileFormatError, match="not a usable path"):
        atomic_write_bytes("nul\0", b"")
    assert names(tmp_path) == []

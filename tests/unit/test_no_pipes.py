"""Readers that take a path refuse a pipe in its place; none of them waits for it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from handful._files import check_regular, file_digest, open_regular, read_bytes
from handful.apps._listening import LARGEST_TOKEN_FILE, read_token
from handful.client._questions import _cloud_file
from handful.clouds import read_cloud
from handful.demos import Action, gripper_named, import_edf, import_npz, import_posed_clouds
from handful.errors import FileFormatError, HandfulError
from handful.learning import RunFolder, predictor_so_far, train_in_folder
from handful.models import load_model
from samples import small_demos
from small_training import small_recipe

HAND = gripper_named("simulated")
READERS = {
    "read_bytes": ("it", lambda path: read_bytes(path, 100)),
    "check_regular": ("it", check_regular),
    "file_digest": ("it", file_digest),
    "token": ("it", read_token),
    "cloud": ("it.ply", read_cloud),
    "cloud of a request": ("it.ply", lambda path: _cloud_file(path, "scene")),
    "npz recording": ("it.npz", lambda path: import_npz(path.parent, gripper=HAND)),
    "gzip recording": ("it.gzip", lambda path: import_edf(path.parent)),
    "poses": ("it.csv", lambda path: import_posed_clouds(path.parent, path, gripper=HAND)),
    "model": ("config.json", lambda path: load_model(path.parent)),
}
RECIPE = small_recipe("pick", Action.PICK)


class Waited(Exception):
    """A reader waits for somebody to write into a pipe."""


def _raise(*_: object) -> None:
    raise Waited


@pytest.fixture(params=["nobody writes", "somebody could write"])
def pipe(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A pipe. Without a writer opening it waits, with one reading does; either is ended."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR) if request.param == "somebody could write" else None
    before = signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, 20)
    yield path
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    if writer is not None:
        os.close(writer)


@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_is_refused_and_not_waited_for(pipe, reader):
    name, read = READERS[reader]
    path = pipe.rename(pipe.with_name(name))
    with pytest.raises(HandfulError, match=r"no regular file|device or pipe|no config\.json"):
        read(path)


def test_the_checker_sees_a_reader_that_waits(pipe):
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with pytest.raises(Waited), open(pipe, "rb") as file:
        file.read()


@pytest.mark.parametrize("pipe", ["somebody could write"], indirect=True)
def test_a_checkpoint_that_is_a_pipe_is_refused(pipe):
    """With a writer only: the library that opens a checkpoint could not be ended by a signal."""
    run = pipe.parent / "run"
    run.mkdir()
    pipe.rename(RunFolder(run).checkpoint("pick"))
    with pytest.raises(FileFormatError, match=r"pick\.checkpoint.*no regular file"):
        train_in_folder(small_demos(1), RECIPE, run, resume=True)
    assert predictor_so_far(small_demos(1), RECIPE, run) is None


def test_a_link_to_a_file_is_opened_and_closed(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"content"
        descriptor = file.fileno()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)


def test_a_token_of_a_file_is_read_up_to_a_size(tmp_path):
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n")
    assert read_token(path) == "0123456789abcdef"
    path.write_text("0" * (LARGEST_TOKEN_FILE + 1))
    with pytest.raises(FileFormatError, match="larger than"):
        read_token(path)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(FileFormatError, match="no regular file"):
        read_token(path)

"""What stands between foreign recordings and the libraries that read them."""

import io
import json
import os
import resource
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from handful._files import check_regular
from handful._memory import bounded_memory
from handful.errors import FileFormatError, HandfulError
from handful.recordings import import_rgbd
from handful.recordings._images import MAX_PIXELS, decode_color, read_color
from handful.recordings.rosbag._bag import open_bag
from rgbd_example import copied

ODD = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "device": lambda path: os.symlink("/dev/zero", path),
    "loop": lambda path: os.symlink(path, path),
    "nothing": lambda path: None,
}


@pytest.mark.parametrize("kind", ODD)
def test_only_regular_files_are_read(tmp_path, kind):
    path = tmp_path / "it.png"
    ODD[kind](path)
    with pytest.raises(FileFormatError, match="cannot be read"):
        check_regular(path)
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_color(path, (4, 4))


def test_a_link_to_a_file_is_one(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    check_regular(tmp_path / "link")


def test_memory_is_bounded_while_a_library_reads_and_not_after():
    before = resource.getrlimit(resource.RLIMIT_AS)
    with (
        pytest.raises(FileFormatError, match="bag: needs more than 64 MiB of memory"),
        bounded_memory(Path("bag"), 64 * 2**20),
    ):
        np.zeros(2**28)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert np.zeros(2**24).nbytes == 2**27
    with bounded_memory(Path("bag"), 2**28):
        assert np.zeros(2**24).nbytes == 2**27


def test_an_image_of_too_many_pixels_is_not_unpacked():
    out = io.BytesIO()
    Image.new("RGB", (2, 2)).save(out, "PNG")
    with pytest.raises(FileFormatError, match=f"at most {MAX_PIXELS} in all"):
        decode_color(out.getvalue(), (MAX_PIXELS, 2), "it")


def test_bags_that_are_unpacked_to_the_disk_are_refused(tmp_path):
    pytest.importorskip("rosbags")
    text = "rosbag2_bagfile_information:\n  compression_format: zstd\n  compression_mode: FILE\n"
    (tmp_path / "metadata.yaml").write_text(text)
    with pytest.raises(FileFormatError, match="compressed as a whole"), open_bag(tmp_path):
        pass
    (tmp_path / "metadata.yaml").write_text("x" * (2**20 + 1))
    with pytest.raises(FileFormatError, match="larger than 1 MiB"), open_bag(tmp_path):
        pass


@pytest.mark.parametrize(
    ("file", "key", "told"),
    [
        ("recordings.json", ("recordings",), "'peg_00' is there twice"),
        ("peg_00/recording.json", ("steps", 0, "scene"), "at most 32"),
        ("peg_00/recording.json", ("steps",), "at most 64"),
        ("peg_00/recording.json", ("steps", 0, "targets"), "at most 1,000"),
    ],
)
def test_what_is_repeated_is_refused_before_images_are_read(tmp_path, file, key, told, monkeypatch):
    folder = copied(tmp_path / "peg_images")
    content = json.loads((folder / file).read_text())
    node = content
    for name in key[:-1]:
        node = node[name]
    node[key[-1]] = node[key[-1]] * 1001
    (folder / file).write_text(json.dumps(content))
    monkeypatch.setattr(
        "handful.recordings.rgbd._folder.read_color", lambda *_: pytest.fail("an image was read")
    )
    if key[-1] == "targets":  # after the views of the step
        monkeypatch.undo()
    with pytest.raises(HandfulError, match=told):
        import_rgbd(folder)

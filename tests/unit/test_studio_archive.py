"""Folders that people pack and upload: what is in them, and what they must not do."""

import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from handful.apps.studio import _archive
from handful.apps.studio._archive import ArchiveReader, demos_of
from handful.apps.studio._document import Document
from handful.apps.studio._opening import opened_upload
from handful.clouds import CloudReader
from handful.demos import gripper_named, save_demos
from handful.errors import HandfulError
from handful.recordings import write_rgbd_example
from samples import small_demos


def packed(folder: Path) -> bytes:
    """A folder as people pack it."""
    return Path(shutil.make_archive(str(folder), "zip", folder)).read_bytes()


def archive(**files: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            file.writestr(name, data)
    return content.getvalue()


@pytest.fixture(autouse=True)
def deep(tmp_path: Path) -> None:
    """A folder in the test's own."""
    (tmp_path / "deep").mkdir()


@pytest.mark.parametrize("inside", [".", "my data/set"])
def test_a_packed_set_is_the_set(tmp_path: Path, inside: str):
    wanted = small_demos()
    save_demos(wanted, tmp_path / "whole" / inside / "set")
    found = demos_of(packed(tmp_path / "whole"), "set.zip", tmp_path / "there", 1000)
    for demo, other in zip(found, wanted, strict=True):
        assert demo.name == other.name
        for step, same in zip(demo.steps, other.steps, strict=True):
            assert np.array_equal(step.targets, same.targets)
            assert np.array_equal(step.scene.points, same.scene.points)


def test_packed_recordings_are_their_demonstrations(tmp_path: Path):
    write_rgbd_example(tmp_path / "images", 1)
    found = demos_of(packed(tmp_path / "images"), "images.zip", tmp_path / "there", 10**6)
    assert found.task.names == ("take peg", "insert peg")


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "{tmp}/evil"])
def test_nothing_is_written_outside_of_the_folder(tmp_path: Path, name: str):
    content = archive(**{name.format(tmp=tmp_path): b"x", "demos.json": b"{}"})
    with pytest.raises(HandfulError, match="leads out of the folder"):
        demos_of(content, "bad.zip", tmp_path / "deep" / "there", 1000)
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"PK\x03\x04 no archive", "no whole ZIP file"),
        (b"", "no whole ZIP file"),
        (archive(readme=b"hello"), "neither demos.json nor recordings.json"),
        (archive(**{"demos.json": b"{}"}), "'format' is missing"),
        (archive(**{"a": b"1", "a/demos.json": b"{}"}), "no whole ZIP file"),
    ],
)
def test_what_is_no_packed_set_is_told(tmp_path: Path, content: bytes, told: str):
    with pytest.raises(HandfulError, match=told):
        demos_of(content, "bad.zip", tmp_path / "there", 1000)


def test_an_archive_that_was_cut_off_is_told(tmp_path: Path):
    save_demos(small_demos(), tmp_path / "set")
    whole = packed(tmp_path / "set")
    for number, share in enumerate((0.2, 0.5, 0.9)):
        cut = whole[: int(share * len(whole))]
        with pytest.raises(HandfulError):
            demos_of(cut, "cut.zip", tmp_path / f"there{number}", 1000)


def test_too_much_is_refused_while_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_archive, "MOST_UNPACKED", 3 * 2**20)
    bomb = archive(**{"demos.json": b"{}", "large": bytes(200 * 2**20)})
    assert len(bomb) < 2**20
    with pytest.raises(HandfulError, match="more than 3 MiB"):
        demos_of(bomb, "bomb.zip", tmp_path / "there", 1000)
    written = sum(one.stat().st_size for one in (tmp_path / "there").rglob("*") if one.is_file())
    assert written <= 3 * 2**20
    monkeypatch.setattr(_archive, "MOST_FILES", 5)
    many = archive(**{str(number): b"" for number in range(6)})
    with pytest.raises(HandfulError, match="6 files: at most 5"):
        demos_of(many, "many.zip", tmp_path / "more", 1000)


def test_clouds_of_an_archive_have_the_limit_of_others(tmp_path: Path):
    save_demos(small_demos(), tmp_path / "set")
    with pytest.raises(HandfulError, match="30 points: at most 29"):
        demos_of(packed(tmp_path / "set"), "set.zip", tmp_path / "there", 29)


@pytest.mark.slow(seconds=10)
def test_an_upload_is_read_by_another_process_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "deep"))
    save_demos(small_demos(), tmp_path / "set")
    content, empty = packed(tmp_path / "set"), Document(gripper_named("franka-hand"))
    reader, archives = CloudReader(1000), ArchiveReader(1000)
    try:
        document = opened_upload(content, "Set.ZIP", reader, archives)(empty)
        assert [one.name for one in document.demonstrations] == ["demo_0", "demo_1"]
        assert document.gripper.name == "simulated"
        with pytest.raises(HandfulError, match=r"^bad.zip: holds neither"):
            opened_upload(archive(readme=b"hello"), "bad.zip", reader, archives)
        wrong = archive(**{"set/demos.json": b"{}"})
        with pytest.raises(HandfulError, match=r"^set/demos.json: "):  # no path of this computer
            opened_upload(wrong, "bad.zip", reader, archives)
        monkeypatch.setattr(_archive, "PATIENCE", 0.05)
        with pytest.raises(HandfulError, match="too much time or memory"):
            archives.read(content, "set.zip")
    finally:
        reader.close()
        archives.close()
    assert list((tmp_path / "deep").iterdir()) == []

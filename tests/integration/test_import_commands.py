"""`handful import` of recordings, as a person uses it; in this process, which loads once."""

import pytest

from handful.apps.cli import app
from handful.demos import load_demos
from handful.errors import HandfulError


def handful(*arguments: object) -> None:
    app([*map(str, arguments)], standalone_mode=False)


def test_rgbd_recordings_are_written_and_imported(tmp_path, capsys):
    images, demos = tmp_path / "images", tmp_path / "demos"
    handful("sample", "--rgbd", "--demos", 1, "--out", images)
    assert f"handful import rgbd {images}" in capsys.readouterr().out
    with pytest.raises(HandfulError, match="exists already"):
        handful("sample", "--rgbd", "--demos", 1, "--out", images)
    handful("import", "rgbd", images, "--out", demos)
    assert "insert peg" in capsys.readouterr().out
    assert load_demos(demos).task.names == ("take peg", "insert peg")
    (images / "peg_00" / "take_table_1_depth.png").unlink()
    with pytest.raises(HandfulError, match=r"take_table_1_depth.png: cannot be read"):
        handful("import", "rgbd", images, "--out", demos, "--overwrite")
    assert len(load_demos(demos)) == 1

"""Folders that come from others may hold links: nothing is written where they lead."""

import os
from pathlib import Path

import pytest
from PIL import Image

from bench_samples import CONDITIONS, episode
from handful._files import append_line, atomic_write_text, make_subfolder
from handful._locks import alone, exclusive
from handful.apps._pictures import write_picture
from handful.bench import EpisodeStore, write_report
from handful.bench.run._commands import note_command
from handful.demos import Action
from handful.errors import FileFormatError
from handful.learning import RunFolder, train_in_folder
from samples import small_demos
from small_training import small_recipe

PRECIOUS = '{"command": "of others"}\n'


def _report(run: Path) -> None:
    write_report(run, run / "report.html", pictures=False)


def _train(run: Path) -> None:
    recipe = small_recipe("pick", Action.PICK, steps=1)
    train_in_folder(small_demos(1), recipe, run, overwrite=True, checkpoint_seconds=0.0)


WRITERS = {
    ".report.html.lock": _report,
    "report.html": _report,
    "report.md": _report,
    "report_files": _report,
    "bench/commands.jsonl": lambda run: note_command(run / "bench", "handful bench"),
    "bench": lambda run: EpisodeStore(run / "bench", CONDITIONS).add(episode(10_001)),
    "run.json": lambda run: RunFolder(run).note(command="handful train"),
    ".run.lock": lambda run: RunFolder(run).note(command="handful train"),
    "pick": _train,
    "pick.log.jsonl": _train,
    "pick.checkpoint.safetensors": _train,
    ".pick.lock": _train,
    "demos.png": lambda run: write_picture(Image.new("RGB", (4, 4)), run / "demos.png"),
}


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_in_a_run_is_not_written_through(tmp_path, name):
    run, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text(PRECIOUS)
    if name != "bench":
        EpisodeStore(run / "bench", CONDITIONS).add(episode(10_000))
    (run / name).parent.mkdir(exist_ok=True)
    folder = name in ("report_files", "bench", "pick")
    (run / name).symlink_to(outside if folder else outside / "file")
    with pytest.raises(FileFormatError, match=r"cannot be written: (it is a link|a link has)"):
        WRITERS[name](run)
    assert _contents(outside) == {"file": PRECIOUS.encode()}


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_is_written_where_there_is_no_link(tmp_path, name):
    """The test above can fail: each of its names is written."""
    run = tmp_path / "run"
    if name != "bench":
        EpisodeStore(run / "bench", CONDITIONS).add(episode(10_000))
    run.mkdir(exist_ok=True)
    WRITERS[name](run)
    made = {path.relative_to(run).as_posix() for path in run.rglob("*")}
    assert name in made or name == "pick.checkpoint.safetensors"  # removed at the end


def test_links_that_stay_in_their_folder_are_followed(tmp_path):
    for name in ("file", "lines"):
        (tmp_path / f"real-{name}").write_text("")
        (tmp_path / name).symlink_to(f"real-{name}")
    (tmp_path / "real").mkdir()
    (tmp_path / "folder").symlink_to("real")
    atomic_write_text(tmp_path / "file", "x")
    append_line(tmp_path / "lines", "x")
    make_subfolder(tmp_path / "folder")
    assert (tmp_path / "real-file").read_text() == "x"
    assert (tmp_path / "real-lines").read_text() == "x\n"


def test_a_folder_behind_a_link_that_the_user_names_is_written(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    EpisodeStore(tmp_path / "run" / "bench", CONDITIONS).add(episode(10_000))
    _report(tmp_path / "run")
    assert (tmp_path / "disk" / "report.html").is_file()


@pytest.mark.parametrize("lock", [exclusive, lambda path: alone(path, "it")])
def test_a_lock_that_is_a_pipe_is_refused(tmp_path, lock):
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(FileFormatError, match="no file has the name"), lock(tmp_path / "lock"):
        pass

"""A disk that is full: one sentence, and what was there before is still there."""

import os
import shutil
import subprocess

import numpy as np
import pytest

from bench_samples import CONDITIONS, episode
from handful.bench import EpisodeStore, note_command, read_episodes, write_report
from handful.clouds import PointCloud, write_cloud
from handful.demos import Action, TaskStep, gripper_named, load_demos, save_demos
from handful.errors import FileFormatError
from handful.learning import RunFolder
from handful.models import EdfModel
from handful.policy import Predictor, load_predictor, save_predictor
from samples import small_demos
from small_training import COARSE, THIN, small_recipe


@pytest.fixture
def disk(tmp_path):
    """A file system of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder, leave=0):
    """Take all room but some bytes."""
    with open(folder / "filler", "wb", buffering=0) as file:
        free = shutil.disk_usage(folder).free - leave
        while free > 0 and (written := file.write(bytes(min(free, 4096)))):
            free -= written


def large_cloud():
    return PointCloud(np.random.default_rng(0).uniform(-0.2, 0.2, (60_000, 3)))


def test_what_was_there_before_stays_when_the_disk_is_full(disk):
    torch_model = EdfModel(small_recipe("take", Action.PICK).model).eval()
    hand, step = gripper_named("simulated"), TaskStep("take", Action.PICK)
    predictor = Predictor(step, torch_model, hand, THIN, COARSE)
    save_demos(small_demos(2), disk / "set")
    save_predictor(predictor, disk / "model")
    run = RunFolder(disk)
    run.note(command="old")
    store = EpisodeStore(disk / "bench", CONDITIONS)
    store.add(episode(10_000))
    write_report(disk, disk / "report.html", pictures=False)
    page = (disk / "report.html").read_text()
    fill(disk)
    store_file = store.path.read_bytes()
    for work in (
        lambda: write_cloud(large_cloud(), disk / "new.ply"),
        lambda: save_demos(small_demos(9), disk / "set", overwrite=True),
        lambda: save_predictor(predictor, disk / "model"),
        lambda: run.note(command="new " * 2000),
        lambda: [store.add(episode(seed)) for seed in range(10_001, 10_100)],
        lambda: [note_command(disk / "bench", "x" * 4000) for _ in range(20)],
        lambda: write_report(disk, disk / "report.html", pictures=False),
    ):
        with pytest.raises(FileFormatError, match=r"cannot be (written|made): No space left"):
            work()
    assert len(load_demos(disk / "set")) == 2
    load_predictor(disk / "model")
    assert run.summary().command == "old"
    assert store.path.read_bytes().startswith(store_file)
    assert read_episodes(store.path)[1][0].seed == 10_000
    assert (disk / "report.html").read_text() == page
    assert not [name for name in os.listdir(disk) if name.endswith(".part")]
    (disk / "filler").unlink()
    store.add(episode(20_000))
    assert 20_000 in {one.seed for one in read_episodes(store.path)[1]}

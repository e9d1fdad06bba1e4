"""The example of a method of one's own, found by its entry point and used like ours."""

import json
import os
import shutil
from pathlib import Path

import pytest

from command_line import run_process
from handful.demos import save_demos
from samples import mug_sample

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A folder in which the example is installed, as pip would do it."""
    site = tmp_path_factory.mktemp("site")
    shutil.copy(EXAMPLE, site)
    info = site / "own_method-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-method\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(
        "[handful.methods]\nhighest-point = own_method:HIGHEST_POINT\n"
    )
    return site


def test_a_method_of_ones_own_trains_resumes_and_infers(package, run, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(package))  # processes that are started find it there, too
    demos, folder = save_demos(mug_sample(2), tmp_path / "demos"), tmp_path / "run"
    words = ("train", demos, "--out", folder, "--method", "highest-point", "--step", "pick")
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert "Trained:" in done.stdout
    assert json.loads((folder / "pick" / "config.json").read_text())["method"] == "highest-point"
    assert run(*words, "--resume").returncode == 0
    (scene,) = demos.glob("demo_00/pick_scene.ply")
    answer = tmp_path / "poses.json"
    done = run("infer", folder, scene, "--step", "pick", "--json", answer, "--picture",
               tmp_path / "poses.png")  # fmt: skip
    assert done.returncode in (0, 3), done.stderr  # 3: the one pose is not feasible
    # It knows one pose, and is asked up to three times where that is not feasible.
    assert 1 <= len(json.loads(answer.read_text())["poses"]) <= 3
    assert (tmp_path / "poses.png").is_file()
    paths = [str(package), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    done = run_process("serve", folder, "--step", "pick")  # its worker's server would stay here
    assert "needs models of edf" in done.stderr

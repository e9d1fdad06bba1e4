"""The example of a method of one's own, found by its entry point and used like ours."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from command_line import HANDFUL
from handful.demos import make_sample, save_demos

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


def test_a_method_of_ones_own_trains_resumes_and_infers(package, tmp_path):
    paths = [str(package), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                   "COLUMNS": "200", "NO_COLOR": "1"}  # fmt: skip

    def handful(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*HANDFUL, *map(str, words)], env=environment, capture_output=True,
                              text=True, timeout=120, check=False)  # fmt: skip

    demos, run = save_demos(make_sample(2, seed=0), tmp_path / "demos"), tmp_path / "run"
    words = ("train", demos, "--out", run, "--method", "highest-point", "--step", "pick")
    done = handful(*words)
    assert done.returncode == 0, done.stderr
    assert "Trained:" in done.stdout
    assert json.loads((run / "pick" / "config.json").read_text())["method"] == "highest-point"
    assert handful(*words, "--resume").returncode == 0
    (scene,) = demos.glob("demo_00/pick_scene.ply")
    answer = tmp_path / "poses.json"
    done = handful("infer", run, scene, "--step", "pick", "--json", answer, "--picture",
                   tmp_path / "poses.png")  # fmt: skip
    assert done.returncode in (0, 3), done.stderr  # 3: the one pose is not feasible
    # It knows one pose, and is asked up to three times where that is not feasible.
    assert 1 <= len(json.loads(answer.read_text())["poses"]) <= 3
    assert (tmp_path / "poses.png").is_file()
    done = handful("serve", run, "--step", "pick")
    assert "needs models of edf" in done.stderr

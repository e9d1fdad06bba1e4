"""Models from anyone: changed files are refused, and no number decides on endless work."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

import handful._checks as checks
from handful.clouds import NeighbourIndex, PointCloud, read_cloud
from handful.demos import Action, TaskStep, gripper_named, make_sample
from handful.errors import CloudError, FileFormatError, GeometryError, OptionError
from handful.geometry import poses_array
from handful.learning import TrainingConfig
from handful.models import (
    EdfModel,
    EncoderConfig,
    GraspQueryConfig,
    LearnedQueryConfig,
    ModelConfig,
)
from handful.policy import Predictor, SearchConfig, load_predictor, save_predictor
from samples import small_cloud
from small_training import COARSE, THIN, small_recipe


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    step = TaskStep("take", Action.PICK)
    model = EdfModel(small_recipe("take", Action.PICK).model).eval()
    return save_predictor(
        Predictor(step, model, gripper_named("simulated"), THIN, COARSE), tmp_path / "model"
    )


@pytest.mark.parametrize("name", ["weights.safetensors", "use.json", "config.json"])
def test_no_flipped_bit_is_loaded_without_a_word(folder, name):
    """Spaces between the fields of a configuration are the only bits that mean nothing."""
    path, rng = folder / name, random.Random(0)
    right = path.read_bytes()
    before = json.loads((folder / "config.json").read_text())
    for _ in range(25):
        bad = bytearray(right)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        path.write_bytes(bad)
        try:
            load_predictor(folder)
        except FileFormatError:
            continue
        assert name == "config.json"
        assert json.loads(path.read_text()) == before
    path.write_bytes(right)
    load_predictor(folder)


def test_a_changed_file_is_named_and_a_model_of_before_is_read(folder):
    use = folder / "use.json"
    use.write_text(use.read_text().replace("0.05", "0.04"))
    with pytest.raises(FileFormatError, match=r"use\.json: is not as it was saved.*'digests'"):
        load_predictor(folder)
    config = folder / "config.json"
    content = json.loads(config.read_text())
    del content["digests"]
    config.write_text(json.dumps(content))
    assert load_predictor(folder).search.spacing == 0.04


def test_a_missing_or_unknown_digest_is_told(folder):
    config = folder / "config.json"
    content = json.loads(config.read_text())
    content["digests"]["more.bin"] = "0"
    config.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match=r"digests: unknown field 'more\.bin'"):
        load_predictor(folder)


ABSURD = [
    lambda: SearchConfig(rotations=1_000_000),
    lambda: SearchConfig(spacing=1e-300),
    lambda: SearchConfig(spacing=float("nan")),
    lambda: SearchConfig(spacing=0.001, rotations=20_000),
    lambda: SearchConfig(starts=10**9),
    lambda: SearchConfig(refine_steps=10**9),
    lambda: SearchConfig(reach=1e300),
    lambda: GraspQueryConfig(unit=1e-300),
    lambda: GraspQueryConfig(count=10_000),
    lambda: GraspQueryConfig(steps=10**9),
    lambda: GraspQueryConfig(step_size=1e300),
    lambda: GraspQueryConfig(cluster_radius=float("inf")),
    lambda: EncoderConfig(layers=12, channels=512, degree=6),
    lambda: LearnedQueryConfig(((1e29, 0.0, 0.0),)),
    lambda: LearnedQueryConfig(((0.0, 0.0, 0.0),) * 1_001),
    lambda: ModelConfig(descriptor=(512,) * 7, learned=LearnedQueryConfig(((0.0, 0.0, 0.1),))),
    lambda: TrainingConfig(steps=10**30),
    lambda: TrainingConfig(seed=-1),
    lambda: TrainingConfig(seed=2**64),
    lambda: TrainingConfig(batch=10**9),
    lambda: make_sample(1, seed=-1),
    lambda: make_sample(1, seed=2**64),
    lambda: small_cloud().subsampled(5, -1),
]


@pytest.mark.parametrize("make", ABSURD, ids=range(len(ABSURD)))
def test_numbers_that_decide_how_much_work_is_done_have_ranges(make):
    with pytest.raises(OptionError, match="need"):
        make()


def test_the_usual_numbers_are_in_range():
    SearchConfig()
    GraspQueryConfig()
    EncoderConfig()
    replace(SearchConfig(), spacing=0.0125, rotations=2_000)


def test_graphs_have_a_largest_number_of_edges(monkeypatch):
    import handful.clouds._neighbours as neighbours

    points = np.random.default_rng(0).uniform(0, 1, (200, 3))
    index = NeighbourIndex(points)
    whole = index.graph(0.3)
    monkeypatch.setattr(neighbours, "MAX_EDGES", len(whole.target) + 200)
    assert len(index.graph(0.3).target) == len(whole.target)
    monkeypatch.setattr(neighbours, "MAX_EDGES", len(whole.target) // 2)
    with pytest.raises(CloudError, match=r"200 points have .* neighbours within 0\.3 m"):
        index.graph(0.3)
    with pytest.raises(CloudError, match="Thin the cloud"):
        index.around(points, 0.3)


# --- arguments of Python -------------------------------------------------------------------------

ODD = ["0", None, 1.5, float("nan"), [1], True, np.array([1, 2]), object(), -1, 2**64, 10**5000]


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_seeds_are_whole_numbers_in_range(value):
    with pytest.raises(OptionError, match=r"seed is .*: need"):
        checks.check_seed(value)
    assert checks.check_seed(np.int64(7)) == 7


@pytest.mark.parametrize("value", ["1", None, [1.0], float("nan"), float("inf"), 0.0, -1, 10**400])
def test_scales_are_lengths_in_metres(value):
    with pytest.raises(OptionError, match=r"scale is .*: need .*0\.001 is for millimetres"):
        checks.check_scale(value)
    assert checks.check_scale(np.float32(0.5)) == 0.5


def test_clouds_are_read_with_a_right_scale_and_number_of_points(tmp_path):
    for options in ({"scale": float("nan")}, {"max_points": 0}, {"max_points": -1}):
        with pytest.raises(OptionError, match="need"):
            read_cloud(tmp_path / "x.ply", **options)


@pytest.mark.parametrize(
    "value", ["x", None, [[1.0]], np.zeros(4), np.zeros((2, 3, 3)), [[1], [1, 2]], 10**400]
)
def test_poses_are_rigid_motions(value):
    with pytest.raises(GeometryError, match=r"T_scene_gripper .*need"):
        poses_array(value, "T_scene_gripper")


def test_only_poses_are_rated(folder):
    predictor = load_predictor(folder)
    scene = PointCloud(np.random.default_rng(0).uniform(-0.1, 0.1, (60, 3)), np.full((60, 3), 0.5))
    for bad in (np.full((1, 4, 4), np.nan), 2.0 * np.eye(4)[None], np.ones((1, 4, 4))):
        with pytest.raises(GeometryError, match="T_scene_gripper"):
            predictor.rate(bad, scene)
    assert len(predictor.rate(np.eye(4)[None], scene)) == 1

"""Transporter Networks as a method: training, resuming, folders, answers."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from handful.baselines.transporter import (
    TRANSPORTER,
    PlanarFrame,
    TransporterConfig,
    TransporterModel,
    TransporterPredictor,
)
from handful.clouds import PointCloud
from handful.demos import (
    Action,
    Demonstration,
    DemoSet,
    Step,
    TaskStep,
    gripper_named,
)
from handful.errors import FileFormatError, OptionError
from handful.learning import MethodOptions, RunFolder, load_trained, method_of, train_in_folder
from handful.policy import PicturedPredictor, TrainedPredictor
from samples import mug_sample

GRIPPER = gripper_named("simulated")
TINY = {"pixels": 32, "turned_pixels": 40, "kernel_pixels": 16, "pixel_size": 0.02, "width": 0.06,
        "embedding": 4, "kernels": 2, "kernel_channels": 3}  # fmt: skip


def tiny(demos: DemoSet, step: str, **options):
    recipe = TRANSPORTER.recipe(demos, step, MethodOptions(**options))
    return replace(recipe, model=replace(recipe.model, **TINY))


def untrained() -> TransporterPredictor:
    model = TransporterModel(TransporterConfig(False, **TINY))
    return TransporterPredictor(TaskStep("pick", Action.PICK), model, GRIPPER)


@pytest.fixture(scope="module")
def sample() -> DemoSet:
    return mug_sample(2)


def tower_demos(count: int, seed: int) -> DemoSet:
    """A red tower on a grey floor; the gripper takes it from above, whatever its yaw."""
    rng = np.random.default_rng(seed)
    demos = []
    for number in range(count):
        floor = np.c_[rng.uniform(-0.3, 0.3, (4000, 2)), np.zeros(4000)]
        place = rng.uniform(-0.15, 0.15, 2)
        top = np.c_[place + rng.uniform(-0.04, 0.04, (400, 2)), np.full(400, 0.1)]
        colors = np.r_[np.full((4000, 3), 0.5), np.tile([0.9, 0.1, 0.1], (400, 1))]
        pose = np.eye(4)
        pose[:3, :3] = Rotation.from_euler("z", rng.uniform(-3, 3)).as_matrix()
        pose[:3, :3] @= np.diag([1.0, -1.0, -1.0])
        pose[:3, 3] = *place, 0.1
        scene = PointCloud(np.r_[floor, top], colors)
        target = pose @ np.linalg.inv(GRIPPER.T_gripper_contact)
        demos.append(Demonstration(f"demo_{number}", (Step("pick", Action.PICK, scene, target),)))
    return DemoSet(tuple(demos), GRIPPER, "towers")


@pytest.mark.slow(seconds=12)
def test_it_learns_to_find_a_tower():
    """With 120 steps, how far off the worst answer was depended on the rounding of a processor."""
    demos, unseen = tower_demos(4, seed=0), tower_demos(5, seed=1)
    recipe = tiny(demos, "pick", steps=200)
    recipe = replace(recipe, model=replace(recipe.model, width=0.15, embedding=20))
    trainer = TRANSPORTER.trainer(demos, recipe)
    likelihoods = []
    trainer.run(lambda report: likelihoods.append(report.likelihood))
    assert np.mean(likelihoods[-20:]) < np.mean(likelihoods[:5]) - 3.0
    predictor = TRANSPORTER.finish(trainer, demos, recipe)
    away = []
    for demo in unseen:
        step = demo.step("pick")
        best = predictor.sample(step.scene, n=1).T_scene_gripper[0]
        apart = (best - step.targets[0])[:3] @ np.append(GRIPPER.T_gripper_contact[:3, 3], 1.0)
        away.append(np.linalg.norm(apart))
    assert np.median(away) < 0.04  # the tower is 8 cm wide
    assert max(away) < 0.08


@pytest.mark.parametrize("step", ["pick", "place"])
def test_a_model_comes_back_from_its_run_and_answers_the_same(sample, step, tmp_path):
    recipe = tiny(sample, step, steps=2, seed=3)
    trained = train_in_folder(sample, recipe, tmp_path / "run")
    again = RunFolder(tmp_path / "run").predictor(step)
    assert method_of(tmp_path / "run" / step) is TRANSPORTER
    assert isinstance(again, TrainedPredictor)
    assert isinstance(again, PicturedPredictor)
    shown = sample[0].step(step)
    grasp = shown.grasp if step == "place" else None
    one, other = trained.sample(shown.scene, grasp, n=7), again.sample(shown.scene, grasp, n=7)
    assert np.array_equal(one.T_scene_gripper, other.T_scene_gripper)
    assert len(one) == 7
    assert np.all(np.diff(one.energy) >= 0)
    assert np.all(one.confidence == 1.0)
    assert again.picture(shown.scene, grasp).width > 100
    line = RunFolder(tmp_path / "run").curve(step)[-1]
    assert (line.step, line.steps) == (1, 2)
    assert train_in_folder(sample, recipe, tmp_path / "run", resume=True).step.name == step


def test_a_resumed_training_is_the_same_to_the_bit(sample):
    recipe = tiny(sample, "pick", steps=3)
    whole, first = TRANSPORTER.trainer(sample, recipe), TRANSPORTER.trainer(sample, recipe)
    whole.run()
    first.run(until=1)
    second = TRANSPORTER.trainer(sample, recipe)
    second.resume(first.state())
    second.run()
    for one, other in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_original_size_is_a_preset(sample):
    recipe = TRANSPORTER.recipe(sample, "place", MethodOptions("original"))
    assert (recipe.model.width, recipe.model.blocks, recipe.model.pixel_size) == (1.0, 2, 0.0025)
    assert (recipe.training.steps, recipe.training.schedule.peak) == (2000, 1e-4)
    assert recipe.training.schedule.rate(1999, 2000) == pytest.approx(1e-4)
    with pytest.raises(OptionError, match="unknown preset 'fast'"):
        TRANSPORTER.recipe(sample, "place", MethodOptions("fast"))
    with pytest.raises(OptionError, match="leave out --colors-matter"):
        TRANSPORTER.recipe(sample, "place", MethodOptions(colors_matter=True))


def test_every_wrong_yaw_is_stood_for(sample):
    objective = tiny(sample, "pick").objective
    for seed in range(5):
        numbers, weights = objective._yaws(seed, 36, np.random.default_rng(seed))
        assert numbers[0] == seed
        assert len(set(numbers)) == len(numbers)
        assert sum(weights) == 36
    numbers, weights = replace(objective, far_yaws=0)._yaws(7, 36, np.random.default_rng(0))
    assert sorted(numbers) == list(range(36))
    assert set(weights) == {1.0}


@pytest.mark.parametrize(("approach", "base"), [((0, 0, -1), "down"), ((1, 0, -0.3), "sideways")])
def test_the_base_is_the_one_that_demonstrated_poses_are_near(approach, base):
    pose = np.eye(4)
    z = np.array(approach) / np.linalg.norm(approach)
    x = np.cross([0.0, 1.0, 0.0], z)
    x /= np.linalg.norm(x)
    pose[:3, :3] = np.stack([x, np.cross(z, x), z], axis=1)
    assert PlanarFrame.fitting(pose[None]).base == base


def test_a_grasp_cloud_must_fit_the_step(sample):
    config = TransporterConfig(False, **TINY)
    predictor = TransporterPredictor(
        TaskStep("pick", Action.PICK), TransporterModel(config), GRIPPER
    )
    step = sample[0].step("place")
    with pytest.raises(OptionError, match="is empty in the step 'pick'"):
        predictor.sample(step.scene, step.grasp)


@pytest.mark.parametrize(
    ("field", "value"),
    [("pixels", 33), ("width", 0.0), ("base", "up"), ("yaws", 0), ("middle", [0])],
)
def test_a_configuration_out_of_range_is_refused(field, value, tmp_path):
    config = TransporterConfig(False, **TINY)
    predictor = TransporterPredictor(
        TaskStep("pick", Action.PICK), TransporterModel(config), GRIPPER
    )
    TRANSPORTER.save(predictor, tmp_path / "pick")
    file = tmp_path / "pick" / "config.json"
    content = json.loads(file.read_text())
    content["config"][field] = value
    file.write_text(json.dumps(content))
    with pytest.raises(FileFormatError):
        load_trained(tmp_path / "pick")

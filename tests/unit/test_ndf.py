"""Neural Descriptor Fields as a method: recipe, training, folder, and what they are told."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from handful.baselines.ndf import NDF, NdfConfig, NetworkConfig, OccupancyObjective, PoseSearch
from handful.baselines.ndf import _method as ndf_method
from handful.demos import DemoSet
from handful.errors import DemoError, OptionError
from handful.learning import MethodOptions, load_trained, train_in_folder
from handful.policy import Segments, ToldPredictor
from samples import mug_sample

SMALL = (
    NdfConfig(
        False,
        NetworkConfig(points=40, neighbours=4, width=4, latent=6, hidden=5),
        PoseSearch(starts=6, kept=3, steps=2),
        queries=10,
        voxel=0.01,
    ),
    OccupancyObjective(clouds=2, positions=20),
    replace(ndf_method.SMALL[2], steps=2),
    3,
)


@pytest.fixture(scope="module")
def demos() -> DemoSet:
    return mug_sample(2)


@pytest.fixture(autouse=True)
def small_and_kept_here(monkeypatch, tmp_path):
    """Tiny networks, in a cache of each test's own."""
    monkeypatch.setattr(ndf_method, "SMALL", SMALL)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", ["pick", "place"])
def test_a_trained_model_comes_back_from_its_folder(demos, name, tmp_path):
    recipe = NDF.recipe(demos, name, MethodOptions())
    made = train_in_folder(demos, recipe, tmp_path / "run")
    again = load_trained(tmp_path / "run" / name)
    step = demos[0].step(name)
    grasp = step.grasp if step.action.holding else None
    one, other = (predictor.sample(step.scene, grasp) for predictor in (made, again))
    assert len(one) == 3
    assert np.array_equal(one.T_scene_gripper, other.T_scene_gripper)
    assert np.isfinite(one.energy).all()
    assert len(again.sample(step.scene, grasp, n=2)) == 2
    with pytest.raises(OptionError, match="grasp cloud"):
        again.sample(step.scene, None if step.action.holding else step.scene)


def test_steps_share_a_pretrained_network(demos, tmp_path):
    recipes = [NDF.recipe(demos, name, MethodOptions()) for name in ("pick", "place")]
    first = NDF.trainer(demos, recipes[0])
    assert first.done == 0
    first.run()
    second = NDF.trainer(demos, recipes[1])
    assert second.done == 2
    assert second.earlier is not None
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert NDF.trainer(demos, NDF.recipe(demos, "pick", MethodOptions(seed=1))).done == 0


def test_a_kept_network_that_is_not_whole_is_trained_anew(demos, tmp_path):
    recipe = NDF.recipe(demos, "pick", MethodOptions())
    NDF.trainer(demos, recipe).run()
    (kept,) = (tmp_path / "cache").rglob("*.safetensors")
    kept.write_bytes(kept.read_bytes()[:-8])
    assert NDF.trainer(demos, recipe).done == 0


def test_an_object_is_what_is_gone_after_the_pick(demos):
    """Its points are where those that the gripper then holds have been."""
    found = ndf_method.object_in(demos[0], "pick", demos)
    step = demos[0].step("pick")
    contact = (step.targets[0] @ demos.gripper.T_gripper_contact)[:3, 3]
    assert 100 < len(found) < 0.3 * len(step.scene)
    assert np.linalg.norm(found.points.mean(axis=0) - contact) < 0.1
    assert found.extent.max() < 0.2


def test_a_pick_that_nothing_follows_says_what_is_missing(demos):
    alone = [replace(demo, steps=(demo.step("pick"),)) for demo in demos]
    with pytest.raises(DemoError, match="no step with a full gripper follows 'pick'"):
        ndf_method.object_in(alone[0], "pick", DemoSet(tuple(alone), demos.gripper))


def test_a_predictor_uses_what_it_is_told(demos):
    recipe = NDF.recipe(demos, "pick", MethodOptions())
    trainer = NDF.trainer(demos, recipe)
    trainer.run()
    predictor = NDF.finish(trainer, demos, recipe)
    assert isinstance(predictor, ToldPredictor)
    scene = demos[0].step("pick").scene
    alone = ndf_method.object_in(demos[0], "pick", demos)
    told = predictor.told(lambda scene, grasp: Segments(alone, scene))
    of_scene, of_object, of_both = (
        one.sample(cloud).T_scene_gripper[0]
        for one, cloud in ((predictor, scene), (predictor, alone), (told, scene))
    )
    assert np.abs(of_both - of_object).max() < 1e-6
    assert np.abs(of_scene - of_object).max() > 1e-3

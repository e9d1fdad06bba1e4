"""Confidence, trained models, runs on disk, and training in two processes."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import handful
from equivariance import random_poses
from handful.clouds import PointCloud
from handful.demos import DemoSet, Step, make_sample, save_demos
from handful.errors import DemoError, FileFormatError, OptionError
from handful.learning import (
    Confidence,
    ContextDropout,
    LatticeNegatives,
    PickObjective,
    PlaceObjective,
    Recipe,
    RunFolder,
    SearchConfig,
    StepReport,
    TrainedModel,
    TrainingConfig,
    load_model,
    pick_recipe,
    place_recipe,
    train,
    train_in_folder,
)
from handful.learning._confidence import without_target
from handful.learning._recipes import descriptor_channels
from handful.learning._trained import workspace
from handful.models import (
    EncoderConfig,
    GraspQueryConfig,
    PickConfig,
    PlaceConfig,
    QueryPoints,
    save_model,
)
from handful.sampling import MetropolisHastings

SMALL = EncoderConfig(voxel_size=0.02, radius=0.05, layers=1, degree=1, channels=4, heads=2)
COARSE = SearchConfig(
    spacing=0.05, rotations=24, starts=4, refine_steps=2, scene_voxel=0.012, grasp_voxel=0.01
)


@pytest.fixture(scope="module")
def demos() -> DemoSet:
    return make_sample(2, seed=0)


def small_recipe(kind: str = "pick", steps: int = 4, seed: int = 0) -> Recipe:
    training = TrainingConfig(steps=steps, batch=2, seed=seed)
    context, lattice = ContextDropout(probability=0.5), LatticeNegatives(0.05, 24)
    if kind == "pick":
        objective = PickObjective(lattice, context=context)
        return Recipe(PickConfig(SMALL, (4, 2)), objective, training, COARSE)
    config = PlaceConfig(SMALL, SMALL, (4, 2), GraspQueryConfig(5, 0.03, steps=2))
    return Recipe(config, PlaceObjective(lattice, context=context), training, COARSE)


@pytest.fixture(scope="module")
def models(demos) -> dict[str, TrainedModel]:
    return {kind: train(demos, small_recipe(kind)) for kind in ("pick", "place")}


# --- confidence ---------------------------------------------------------------------------------


def test_confidence_is_high_with_the_target_and_low_without():
    curve = Confidence.between(np.array([3.0, 3.5, 4.0]), np.array([8.0, 9.0, 7.5]))
    assert curve.of(np.array([3.0, 3.5])).min() > 0.99
    assert curve.of(np.array([8.0, 9.0])).max() < 0.1
    assert curve.threshold == pytest.approx(3.5 + 0.7 * (7.75 - 3.5))


def test_confidence_is_undecided_when_energies_overlap():
    same = np.linspace(3.0, 5.0, 40)
    told = Confidence.between(same, same).of(same)
    assert 0.4 < told.min() <= told.max() < 0.6


def test_confidence_is_never_a_warning_and_never_a_nan():
    curve = Confidence(0.0, 1e-9)
    np.testing.assert_array_equal(curve.of(np.array([-1e9, 1e9])), [1.0, pytest.approx(0.0)])
    with pytest.raises(OptionError, match="finite energies"):
        Confidence.between(np.array([1.0, np.nan]), np.array([2.0]))
    with pytest.raises(OptionError, match="scale"):
        Confidence(0.0, 0.0)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_target_is_cut_out(demos, replaced):
    scene = demos[0].step("pick").scene
    focus = scene.points.mean(axis=0).astype(np.float64)
    emptied = without_target(scene, focus, 0.1, np.random.default_rng(0), replaced)
    assert emptied is not None
    if replaced:
        assert len(emptied) == len(scene)
    else:
        assert np.linalg.norm(emptied.points - focus, axis=1).min() > 0.1
    assert without_target(scene, focus, 10.0, np.random.default_rng(0), replaced) is None


# --- trained models -----------------------------------------------------------------------------


def clouds_of(demos: DemoSet, kind: str) -> tuple[PointCloud, ...]:
    step = demos[0].step(kind)
    return (step.scene,) if kind == "pick" else (step.scene, step.grasp)


@pytest.mark.parametrize("kind", ["pick", "place"])
def test_poses_come_best_first_and_the_same_for_the_same_seed(models, demos, kind):
    clouds = clouds_of(demos, kind)
    poses = models[kind].sample(*clouds, n=5, seed=3)
    again = models[kind].sample(*clouds, n=5, seed=3)
    assert 1 <= len(poses) <= 5
    assert (np.diff(poses.energy) >= 0).all()
    assert (np.diff(poses.confidence) <= 0).all()
    assert ((poses.confidence >= 0) & (poses.confidence <= 1)).all()
    np.testing.assert_array_equal(poses.T_scene_gripper, again.T_scene_gripper)
    turns = poses.T_scene_gripper[:, :3, :3]
    error = turns @ turns.swapaxes(1, 2) - np.eye(3)
    assert np.abs(error).max() < 1e-5


@pytest.mark.parametrize("kind", ["pick", "place"])
def test_a_saved_model_gives_the_same_poses(models, demos, kind, tmp_path):
    clouds = clouds_of(demos, kind)
    models[kind].save(tmp_path / "model")
    loaded = handful.load_model(tmp_path / "model")
    assert loaded.kind == kind
    assert (loaded.gripper, loaded.search) == (models[kind].gripper, models[kind].search)
    before, after = models[kind].sample(*clouds, n=3), loaded.sample(*clouds, n=3)
    np.testing.assert_array_equal(before.T_scene_gripper, after.T_scene_gripper)
    np.testing.assert_array_equal(before.confidence, after.confidence)


@pytest.mark.parametrize("kind", ["pick", "place"])
def test_poses_from_elsewhere_are_rated_as_sampled_ones_are(models, demos, kind):
    clouds = clouds_of(demos, kind)
    sampled = models[kind].sample(*clouds, n=5)
    shuffled = sampled.T_scene_gripper[np.random.default_rng(0).permutation(len(sampled))]
    rated = models[kind].rate(shuffled, *clouds)
    np.testing.assert_array_equal(rated.T_scene_gripper, sampled.T_scene_gripper)
    np.testing.assert_allclose(rated.energy, sampled.energy, rtol=1e-4)
    np.testing.assert_allclose(rated.confidence, sampled.confidence, atol=1e-3)
    assert len(models[kind].rate(np.zeros((0, 4, 4)), *clouds)) == 0


def test_another_sampler_can_be_used(models, demos):
    poses = models["pick"].sample(
        *clouds_of(demos, "pick"), n=4, sampler=MetropolisHastings(steps=3)
    )
    assert len(poses) == 4


def test_models_say_which_clouds_they_need(models, demos):
    scene, grasp = clouds_of(demos, "place")
    with pytest.raises(OptionError, match="needs a grasp cloud"):
        models["place"].sample(scene)
    with pytest.raises(OptionError, match="no grasp cloud"):
        models["pick"].sample(scene, grasp)


def test_the_same_seed_gives_the_same_model(models, demos):
    again = train(demos, small_recipe("pick"))
    for one, other in zip(
        models["pick"].network.parameters(), again.network.parameters(), strict=True
    ):
        assert torch.equal(one, other)
    assert again.confidence == models["pick"].confidence


def test_a_folder_that_is_no_trained_model_is_refused(models, tmp_path):
    save_model(models["pick"].network, tmp_path / "bare")
    with pytest.raises(FileFormatError, match=r"use\.json: is missing"):
        load_model(tmp_path / "bare")
    models["pick"].save(tmp_path / "model")
    use = tmp_path / "model" / "use.json"
    content = json.loads(use.read_text())
    content["confidence"]["scale"] = -1.0
    use.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match="scale"):
        load_model(tmp_path / "model")


def test_place_needs_grasp_clouds(demos):
    step = demos[0].step("place")
    bare = DemoSet((handful.Demonstration("a", (Step("place", step.scene, step.targets),)),))
    with pytest.raises(DemoError, match="'a': the place step has no grasp cloud"):
        train(bare, small_recipe("place"))


@pytest.mark.parametrize("own_frames", [True, False])
def test_query_points_on_the_hand_are_passed_over(demos, models, own_frames):
    model = models["place"]
    clouds = model.search.prepared(*clouds_of(demos, "place"), own_frames=own_frames)
    in_gripper = torch.tensor([[0.03, 0.0, 0.01], [0.0, 0.02, 0.16], [0.0, 0.0, 0.06]])
    frame = torch.from_numpy(clouds.from_grasp).float()
    queries = QueryPoints(
        in_gripper @ frame[:3, :3].T + frame[:3, 3],
        torch.tensor([0.6, 0.1, 0.3]),
        torch.zeros(3, model.network.key_field.types.dim),
    )
    assert model._held(queries, clouds).weights.tolist() == [pytest.approx(0.1)]
    only_hand = queries.selected(torch.tensor([0, 2]))
    assert len(model._held(only_hand, clouds)) == 2
    found = model.energy(clouds).queries
    assert len(found) <= model.network.config.strongest


def test_a_weak_query_point_far_away_does_not_keep_the_strong_one_from_the_scene(demos, models):
    model = models["place"]
    energy = model.energy(model.search.prepared(*clouds_of(demos, "place")))
    queries = QueryPoints(
        torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 0.3]]),
        torch.tensor([0.7, 0.3]),
        energy.queries.descriptors[:1].repeat(2, 1),
    )
    box = workspace(replace(energy, queries=queries), 0.03)
    points = energy.field.encoded.points.numpy()
    middle = np.array([0.0, 0.0, 0.09])
    for rotation in random_poses(10, 0)[:, :3, :3].numpy():
        moved = points + rotation @ middle
        assert (moved >= np.array(box.lower)).all()
        assert (moved <= np.array(box.upper)).all()


# --- recipes ------------------------------------------------------------------------------------


def test_recipes_follow_the_demonstrations(demos):
    recipe = pick_recipe(demos)
    assert recipe.model.encoder.use_colors
    assert recipe.model.query_positions[0][2] == pytest.approx(demos.gripper.tip - 0.005)
    grey = DemoSet(
        tuple(
            handful.Demonstration(
                demo.name,
                (Step("pick", PointCloud(demo.steps[0].scene.points), demo.steps[0].targets),),
            )
            for demo in demos
        )
    )
    assert not pick_recipe(grey).model.encoder.use_colors
    for make in (pick_recipe, place_recipe):
        assert make(demos, steps=7, seed=5).training.steps == 7
        plain = make(demos).objective
        assert (plain.augmentation.recolor, plain.stretch.most, plain.clutter.most) == (0, 0, 0)
        assert make(demos, vary=["colors"]).objective.augmentation.recolor > 0
        assert make(demos, vary=["contrast"]).objective.augmentation.fade > 0
        assert make(demos, vary=["shapes"]).objective.stretch.most > 0
        assert make(demos, vary=["clutter"]).objective.clutter.most > 0
        with pytest.raises(OptionError, match="variation 'colours'"):
            make(demos, vary=["colours"])
        assert make(demos, preset="paper").training.steps == 600
        with pytest.raises(OptionError, match="preset 'fats'"):
            make(demos, preset="fats")
    assert place_recipe(demos).objective.one_sided == 0
    assert place_recipe(demos, vary=["sides"]).objective.one_sided > 0


def test_type_0_alone_is_as_long_as_all_types():
    assert descriptor_channels((0, 1, 2, 3)) == (16, 8, 4, 4)
    assert descriptor_channels((0,)) == (88,)
    assert descriptor_channels((1,)) == (0, 8)
    with pytest.raises(OptionError, match="choose some of"):
        descriptor_channels((0, 4))
    with pytest.raises(OptionError, match="choose some of"):
        descriptor_channels(())


def test_type_0_alone_has_query_points_enough_to_know_an_orientation(demos):
    one = pick_recipe(demos).model
    many = pick_recipe(demos, types=(0,)).model
    assert isinstance(one, PickConfig)
    assert isinstance(many, PickConfig)
    (centre,) = one.query_positions
    around = np.array(many.query_positions) - centre
    assert len(around) == 10
    np.testing.assert_allclose(np.linalg.norm(around, axis=1), 0.02)
    assert np.linalg.matrix_rank(around, tol=1e-3) == 3
    for make in (pick_recipe, place_recipe):
        assert make(demos).objective.negatives.learn_weights
        assert not make(demos, types=(0,)).objective.negatives.learn_weights


# --- runs on disk -------------------------------------------------------------------------------


class Stop(BaseException):
    """Ctrl-C."""


def weights(model: TrainedModel) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.network.parameters()])


@pytest.mark.parametrize("kind", ["pick", "place"])
def test_an_interrupted_run_gives_the_same_model(models, demos, kind, tmp_path):
    recipe = small_recipe(kind)

    def interrupt(report: StepReport) -> None:
        if report.step == 1:
            raise Stop

    with pytest.raises(Stop):
        train_in_folder(demos, recipe, tmp_path / "run", report=interrupt)
    run = RunFolder(tmp_path / "run")
    assert run.checkpoint(kind).is_file()
    assert not run.model(kind).exists()
    assert [line["step"] for line in run.curve(kind)] == [0, 1]
    resumed = train_in_folder(demos, recipe, tmp_path / "run", resume=True)
    assert torch.equal(weights(resumed), weights(models[kind]))
    assert [line["step"] for line in run.curve(kind)] == [0, 1, 2, 3]
    assert not run.checkpoint(kind).exists()
    summary = run.summary()[kind]
    assert summary["steps"] == 4
    assert summary["seconds"] > 0
    # A second time, it is only loaded.
    told: list[StepReport] = []
    loaded = train_in_folder(demos, recipe, tmp_path / "run", resume=True, report=told.append)
    assert not told
    assert torch.equal(weights(loaded), weights(resumed))


def test_a_run_is_not_overwritten_or_mixed_up(demos, tmp_path):
    train_in_folder(demos, small_recipe(steps=1), tmp_path / "run")
    with pytest.raises(OptionError, match="--resume"):
        train_in_folder(demos, small_recipe(steps=1), tmp_path / "run")
    with pytest.raises(OptionError, match="other demonstrations or options"):
        train_in_folder(demos, small_recipe(steps=1, seed=1), tmp_path / "run", resume=True)
    train_in_folder(demos, small_recipe(steps=1, seed=1), tmp_path / "run", overwrite=True)
    assert RunFolder(tmp_path / "run").summary()["pick"]["seed"] == 1


def test_a_broken_checkpoint_is_one_sentence(demos, tmp_path):
    run = RunFolder(tmp_path)
    run.checkpoint("pick").write_bytes(b"not tensors")
    with pytest.raises(FileFormatError, match="not a whole checkpoint"):
        train_in_folder(demos, small_recipe(), tmp_path, resume=True)
    with pytest.raises(OptionError, match="was begun there"):
        train_in_folder(demos, small_recipe(), tmp_path)


TWO = """
import sys, torch
from torch import distributed
sys.path.insert(0, {tests!r}); sys.path.insert(0, {unit!r})
torch.set_num_threads(1)
from test_trained import small_recipe
from handful.demos import load_demos
from handful.learning import train_in_folder
distributed.init_process_group("gloo")
train_in_folder(load_demos({demos!r}), small_recipe("place"), {run!r})
distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_train_the_same_model_as_one(demos, tmp_path):
    """The gradients are added up in another order, so weights agree to rounding."""
    save_demos(demos, tmp_path / "demos")
    here = Path(__file__).parent
    script = tmp_path / "two.py"
    script.write_text(
        TWO.format(
            tests=str(here.parent),
            unit=str(here),
            demos=str(tmp_path / "demos"),
            run=str(tmp_path / "run"),
        )
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*launch, "--nproc-per-node", "2", str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    alone = train(handful.load_demos(tmp_path / "demos"), small_recipe("place"))
    together = load_model(tmp_path / "run" / "place")
    torch.testing.assert_close(weights(together), weights(alone), rtol=1e-3, atol=1e-5)

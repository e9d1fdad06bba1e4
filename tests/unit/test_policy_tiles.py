"""Large scenes: tiles cover them, and energies from tiles are those of the whole scene."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from handful.clouds import Box, PointCloud, concatenate
from handful.demos import Action, DemoSet
from handful.errors import EmptyCloudError, OptionError
from handful.models import EdfModel, Field, local_moments
from handful.policy import PoseSelection, Predictor, SceneView, Verdict
from handful.policy import _preparation as preparation_module
from handful.policy import _view as view_module
from handful.policy._tiles import NARROWEST, Tile, grown, owners, tiles_of
from handful.policy._view import encoded_field
from handful.sampling import MetropolisHastings
from samples import mug_sample
from small_training import COARSE, THIN, small_recipe

STEPS = {"pick": Action.PICK, "place": Action.PLACE}


@pytest.fixture(scope="module")
def demos() -> DemoSet:
    return mug_sample(1)


@pytest.fixture(scope="module")
def predictors(demos) -> dict[str, Predictor]:
    """Predictors that have learned nothing: the laws hold for all of them."""
    torch.manual_seed(0)
    recipes = [small_recipe(name, action) for name, action in STEPS.items()]
    return {
        recipe.step.name: Predictor(
            recipe.step, EdfModel(recipe.model), demos.gripper, THIN, COARSE
        )
        for recipe in recipes
    }


def row_of_scenes(demos: DemoSet, name: str, count: int = 3) -> tuple[PointCloud, ...]:
    """The demonstrated scene, several times, 0.9 m apart; and what is held."""
    step, motion = demos[0].step(name), np.eye(4)
    parts = []
    for number in range(count):
        motion[0, 3] = 0.9 * number
        parts.append(step.scene.transformed(motion))
    return (concatenate(parts), step.grasp) if step.action.holding else (concatenate(parts),)


# --- tiles --------------------------------------------------------------------------------------

POINTS = np.random.default_rng(0).uniform(0.0, [3.0, 2.0, 0.1], (3000, 3))
DOMAIN = Box((-0.1, -0.1, -0.1), (3.1, 2.1, 0.2))


def test_every_place_with_points_is_in_one_core_whose_tile_holds_all_points_around():
    tiles = tiles_of(POINTS, DOMAIN, 0.2, 400)
    assert len(tiles) > 5
    assert max(len(tile.points) for tile in tiles) <= 400
    owner = owners(tiles, POINTS, DOMAIN)
    assert (owner >= 0).all()
    for number, tile in enumerate(tiles):
        assert tile.core.contains(POINTS[owner == number]).all()
        around = np.flatnonzero(grown(tile.core, 0.2).contains(POINTS))
        np.testing.assert_array_equal(tile.points, around)


def test_empty_space_has_no_tile_and_no_owner():
    far = np.concatenate([POINTS, POINTS + np.array([27.0, 0.0, 0.0])])
    domain = Box.around(far, 0.1)
    tiles = tiles_of(far, domain, 0.2, 400)
    assert 1 < len(tiles) < 4 * len(tiles_of(POINTS, DOMAIN, 0.2, 400))
    assert owners(tiles, np.array([[12.0, 1.0, 0.0]]), domain)[0] == -1
    outside = np.array([[-5.0, 1.0, 0.0]])
    assert owners(tiles, outside, domain) == owners(tiles, np.array([[-0.1, 1.0, 0.0]]), domain)


def test_a_lonely_point_gets_a_neighbour():
    points = np.concatenate([POINTS, [[30.0, 0.0, 0.0]]])
    tiles = tiles_of(points, Box.around(points, 0.1), 0.2, 400)
    (lonely,) = [tile for tile in tiles if len(POINTS) in tile.points]
    assert isinstance(lonely, Tile)
    assert len(lonely.points) == 2


def test_what_is_too_dense_is_one_sentence():
    dense = np.random.default_rng(0).uniform(0.0, NARROWEST, (20_000, 3))
    with pytest.raises(OptionError, match=r"20000 points .* at most 12000 fit in memory"):
        tiles_of(dense, Box.around(dense, 0.01), 0.2, 400)


# --- views --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STEPS)
def test_energies_of_tiles_are_those_of_the_whole_scene(predictors, demos, name):
    clouds = row_of_scenes(demos, name)
    whole = SceneView(predictors[name], *clouds, tile_points=100_000)
    tiled = SceneView(predictors[name], *clouds, tile_points=500)
    assert len(whole.tiles) == 1
    assert len(tiled.tiles) >= 3
    found = tiled.sample(n=10)
    assert len(found) == 10
    assert (np.diff(found.energy) >= 0).all()
    rated = whole.rate(found.T_scene_gripper)
    np.testing.assert_allclose(rated.energy, found.energy, rtol=1e-4)
    np.testing.assert_allclose(rated.confidence, found.confidence, atol=1e-3)
    again = tiled.rate(found.T_scene_gripper)
    np.testing.assert_allclose(again.energy, found.energy, rtol=1e-4)


@pytest.fixture(scope="module")
def shaped(demos) -> Predictor:
    """A predictor that has the shape of the whole cloud around each point as an input."""
    torch.manual_seed(0)
    recipe = small_recipe("pick", Action.PICK)
    encoder = replace(recipe.model.encoder, degree=2, shape_radius=0.06)
    model = EdfModel(replace(recipe.model, encoder=encoder))
    return Predictor(recipe.step, model, demos.gripper, THIN, COARSE)


def test_energies_of_tiles_are_those_of_the_whole_scene_with_shapes(shaped, demos):
    clouds = row_of_scenes(demos, "pick")
    whole = SceneView(shaped, *clouds, tile_points=100_000)
    tiled = SceneView(shaped, *clouds, tile_points=500)
    assert len(whole.tiles) == 1
    assert len(tiled.tiles) >= 3
    poses = whole.sample(n=30).T_scene_gripper
    np.testing.assert_allclose(tiled.rate(poses).energy, whole.rate(poses).energy, rtol=1e-4)
    # The control: moments of what a tile holds, thinned, instead of those of the whole cloud.
    thinned = shaped.model.key_field.encoder.thin(whole.clouds.scene)
    own = replace(thinned, moments=local_moments(thinned.points, thinned.points, 0.06))
    positions = torch.from_numpy(thinned.points[::20].astype(np.float32))
    with torch.no_grad():
        one, other = (shaped.model.key_field(cloud)(positions) for cloud in (thinned, own))
    assert (one - other).norm() > 1e-3 * one.norm()


def test_a_workspace_keeps_all_that_moments_near_it_depend_on(shaped, demos):
    scene = demos[0].step("pick").scene
    low, high = (corner.tolist() for corner in scene.bounds)
    box = Box((low[0], low[1], low[2]), (high[0], high[1], high[2] + 0.1))
    plain = replace(shaped.model.config.encoder, shape_radius=0.0).receptive_radius
    view = shaped.look(scene, workspace=box)
    edge = high[0] + view.margin + 0.055  # The contact is the query point: nothing to add.
    beyond = PointCloud([[edge, low[1], low[2]], [edge + 0.05, low[1], low[2]]], [[0.5] * 3] * 2)
    crowded = shaped.look(concatenate([scene, beyond]), workspace=box).clouds
    points = crowded.scene.transformed(np.linalg.inv(crowded.T_frame_scene)).points
    assert (np.abs(points[:, 0] - edge) < 0.03).sum() == 1
    assert shaped.model.config.encoder.receptive_radius == plain


def test_a_margin_that_is_too_small_changes_energies(predictors, demos, monkeypatch):
    """The control of the law above."""
    clouds = row_of_scenes(demos, "pick")
    whole = SceneView(predictors["pick"], *clouds, tile_points=100_000)
    poses = whole.sample(n=100).T_scene_gripper
    monkeypatch.setattr(SceneView, "margin", 0.001)
    narrow = SceneView(predictors["pick"], *clouds, tile_points=100)
    assert len(narrow.tiles) > 3
    apart = np.abs(narrow.rate(poses).energy - whole.rate(poses).energy)
    assert (apart / whole.rate(poses).energy).max() > 1e-3


def test_the_best_of_tiles_is_about_as_good_as_the_best_of_the_whole(predictors, demos):
    predictor = predictors["pick"]
    finer = replace(predictor, search=replace(predictor.search, spacing=0.03, rotations=100))
    clouds = row_of_scenes(demos, "pick")
    whole = SceneView(finer, *clouds, tile_points=100_000).sample(n=5)
    tiled = SceneView(finer, *clouds, tile_points=500).sample(n=5)
    assert tiled.energy[0] <= 1.03 * whole.energy[0]


@pytest.mark.parametrize("name", STEPS)
def test_poses_far_from_everything_cost_as_much_as_in_empty_space(predictors, demos, name):
    clouds = row_of_scenes(demos, name)
    far = np.eye(4)[None].repeat(2, axis=0)
    far[:, 0, 3] = (0.45, 50.0)
    far[:, 2, 3] = 5.0
    whole = SceneView(predictors[name], *clouds, tile_points=100_000)
    tiled = SceneView(predictors[name], *clouds, tile_points=500)
    np.testing.assert_allclose(tiled.rate(far).energy, whole.rate(far).energy, rtol=1e-5)


def test_few_encodings_are_held_at_once(predictors, demos):
    view = SceneView(predictors["pick"], *row_of_scenes(demos, "pick", 4), tile_points=400)
    assert len(view.tiles) > view_module.ENCODED_AT_ONCE
    view.sample(n=3)
    assert len(view._encoded) == view_module.ENCODED_AT_ONCE


def test_a_scene_of_one_tile_is_encoded_once_however_often_it_is_asked(predictors, demos):
    predictor, scene = predictors["pick"], demos[0].step("pick").scene
    view = predictor.look(scene)
    first = view.sample(n=4, seed=3)
    view.rate(first.T_scene_gripper)
    view.sample(n=2)
    assert view.encodings == 1
    np.testing.assert_array_equal(
        first.T_scene_gripper, predictor.sample(scene, n=4, seed=3).T_scene_gripper
    )


def test_other_samplers_refuse_tiles_in_one_sentence(predictors, demos):
    view = SceneView(predictors["pick"], *row_of_scenes(demos, "pick"), tile_points=500)
    with pytest.raises(OptionError, match=r"tiles, which MetropolisHastings cannot do: crop"):
        view.sample(sampler=MetropolisHastings(steps=1))


def test_millions_of_points_are_prepared_in_parts(predictors, demos, monkeypatch):
    scene = demos[0].step("pick").scene
    whole = predictors["pick"].sample(scene, n=3)
    T_frame_scene = preparation_module.principal_frame(scene)
    monkeypatch.setattr(preparation_module, "AT_ONCE", len(scene) // 3)
    monkeypatch.setattr(preparation_module, "_frame_of", lambda cloud: T_frame_scene)
    parts = predictors["pick"].sample(scene, n=3)
    np.testing.assert_allclose(parts.T_scene_gripper, whole.T_scene_gripper, atol=1e-4)


# --- workspace ----------------------------------------------------------------------------------


def contacts(predictor: Predictor, T_scene_gripper: np.ndarray) -> np.ndarray:
    return (T_scene_gripper @ predictor.gripper.T_gripper_contact)[:, :3, 3]


@pytest.mark.parametrize("name", STEPS)
def test_what_cannot_be_reached_is_neither_encoded_nor_answered(predictors, demos, name):
    predictor, (scene, *grasp) = predictors[name], row_of_scenes(demos, name)
    low, high = (corner.tolist() for corner in demos[0].step(name).scene.bounds)
    box = Box((low[0] + 0.9, low[1], low[2]), (high[0] + 0.9, high[1], high[2] + 0.1))
    everywhere = predictor.look(scene, *grasp)
    view = predictor.look(scene, *grasp, workspace=box)
    assert view.points < 0.75 * everywhere.points
    found = predictor.sample(scene, *grasp, n=20, workspace=box)
    assert len(found) > 0
    assert box.contains(contacts(predictor, found.T_scene_gripper)).all()
    anywhere = contacts(predictor, everywhere.sample(n=20).T_scene_gripper)
    assert not box.contains(anywhere).all()


def test_a_workspace_elsewhere_is_one_sentence(predictors, demos):
    with pytest.raises(EmptyCloudError, match=r"nothing of the scene is within .* m of the"):
        predictors["pick"].sample(
            demos[0].step("pick").scene, workspace=Box((50.0, 0.0, 0.0), (51.0, 1.0, 1.0))
        )


def test_a_pose_selection_encodes_once_and_only_what_can_be_reached(predictors, demos, monkeypatch):
    predictor, (scene,) = predictors["pick"], row_of_scenes(demos, "pick")
    low, high = (corner.tolist() for corner in demos[0].step("pick").scene.bounds)
    box = Box((low[0], low[1], low[2]), (high[0], high[1], high[2] + 0.1))
    encoded: list[int] = []

    def counting(model: EdfModel, cloud: PointCloud) -> Field:
        encoded.append(len(cloud))
        return encoded_field(model, cloud)

    monkeypatch.setattr(view_module, "encoded_field", counting)

    def select(workspace: Box | None) -> PoseSelection:
        encoded.clear()
        never = lambda pose: Verdict(False, "never")  # noqa: E731
        return PoseSelection(predictor, predictor.gripper, scene, None, never, 10, 0, workspace)

    everywhere = select(None)
    assert len(everywhere.proposed) > 200  # asked for poses, for ratings, and for poses again
    assert len(encoded) == 1
    before = encoded[0]
    select(box)
    assert len(encoded) == 1
    assert encoded[0] < 0.75 * before


def test_a_lattice_that_is_too_large_is_searched_in_halves(predictors, demos, monkeypatch):
    from handful.sampling.lattice import _sparse_lattice as sparse_module

    view = predictors["pick"].look(demos[0].step("pick").scene)
    energy, search = view.energy(0), predictors["pick"].search
    box = search.workspace(energy)
    seeded = torch.Generator().manual_seed
    one = search.sampler(energy).sample(energy, box, 5, seeded(0))
    monkeypatch.setattr(sparse_module, "MAX_ENTRIES", one.report.lattice_poses // 3)
    halves = search.sampler(energy).sample(energy, box, 5, seeded(0))
    assert halves.report.lattice_poses > 0.8 * one.report.lattice_poses
    torch.testing.assert_close(energy(halves.poses), halves.energies, rtol=1e-4, atol=1e-4)
    assert float(halves.energies[0]) < 1.05 * float(one.energies[0])
    monkeypatch.setattr(sparse_module, "MAX_ENTRIES", 1)
    with pytest.raises(OptionError, match="use fewer rotations"):
        search.sampler(energy).sample(energy, box, 5, seeded(0))

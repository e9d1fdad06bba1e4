"""Pictures of poses and fields show what they should, and colours do not depend on the frame."""

import numpy as np
import pytest
import torch
from PIL import Image

from equivariance import moved, random_object, random_poses
from handful.clouds import PointCloud, voxel_filter
from handful.demos import gripper_from_tip, gripper_named
from handful.errors import OptionError
from handful.models import DescriptorField, EncoderConfig, Field, QueryPoints
from handful.nn import Types
from handful.viz import (
    FieldPalette,
    palette_of_field,
    picture_of_field,
    picture_of_inference,
    picture_of_poses,
    view_of_pose,
    view_of_scene,
)
from handful.viz._fields import _spread
from samples import mug_sample, pose_at

ENCODER = EncoderConfig(voxel_size=None, radius=0.05, layers=1, degree=1, channels=4, heads=2)
TYPES = Types((6, 3, 1))
SMALL = (160, 120)
GRIPPER = gripper_named("simulated")
CONTACT = GRIPPER.T_gripper_contact[:3, 3]


def field_of(cloud: PointCloud, types: Types = TYPES, seed: int = 0) -> Field:
    """A random field, in double precision as the clouds of `random_object`."""
    torch.manual_seed(seed)
    config = ENCODER if len(cloud) < 1000 else EncoderConfig(channels=4, heads=2, degree=1)
    with torch.no_grad():
        return DescriptorField(config, types).double()(cloud)


def values_of(field: Field) -> torch.Tensor:
    with torch.no_grad():
        return field(field.encoded.points)


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image).astype(float)


def blue(image: Image.Image) -> float:
    shown = pixels(image)
    return float((shown[..., 2] > 1.25 * shown[..., :2].max(axis=2)).mean())


def red(image: Image.Image) -> float:
    shown = pixels(image)
    return float((shown[..., 0] > 1.4 * shown[..., 1:].max(axis=2)).mean())


def scene_and_poses() -> tuple[PointCloud, np.ndarray]:
    step = mug_sample()[0].step("pick")
    scene = voxel_filter(step.scene, 0.006)
    poses = np.repeat(step.targets[:1], 3, axis=0).copy()
    poses[1:, 0, 3] += [0.05, -0.05]
    return scene, poses


# --- palettes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_colours_stay_and_arrows_turn_when_the_scene_moves(seed: int) -> None:
    cloud, pose = random_object(seed, count=80), random_poses(1, seed)[0]
    before, after = values_of(field_of(cloud)), values_of(field_of(moved(cloud, pose)))
    one, two = FieldPalette.fit(before, TYPES), FieldPalette.fit(after, TYPES)
    np.testing.assert_allclose(two.colors(after), one.colors(before), atol=1e-6)
    turned = one.arrows(before) @ pose[:3, :3].numpy().T
    np.testing.assert_allclose(two.arrows(after), turned, atol=1e-6)
    assert one.colors(before).std(axis=0).min() > 0.02
    assert 0.8 < np.linalg.norm(one.arrows(before), axis=1).max() < 3.0


def test_channels_and_units_of_a_field_do_not_change_its_picture() -> None:
    values = values_of(field_of(random_object(0, count=80)))[:, : Types((6, 3)).dim]
    shuffled = values[:, [3, 0, 5, 1, 4, 2, *range(6, 15)]] * 7.0
    colors, others = (
        FieldPalette.fit(some, Types((6, 3))).colors(some) for some in (values, shuffled)
    )
    np.testing.assert_allclose(colors, others, atol=1e-9)


def test_what_is_common_is_grey_and_what_is_rare_is_not() -> None:
    values = torch.zeros(1000, 4, dtype=torch.float64)
    values[900:, 0], values[950:, 1] = 1.0, 1.0
    values += 1e-3 * torch.randn(1000, 4, generator=torch.Generator().manual_seed(0))
    colors = FieldPalette.fit(values, Types((4,))).colors(values)
    assert np.abs(colors[:900].mean(axis=0) - colors[:900].mean()).max() < 0.05
    assert np.ptp(colors[900:950].mean(axis=0)) > 0.3
    assert np.ptp(colors[950:].mean(axis=0)) > 0.3


@pytest.mark.parametrize("channels", [(1,), (2, 1), (0, 2), (4, 0, 1)])
def test_few_channels_and_constant_fields_have_palettes(channels: tuple[int, ...]) -> None:
    types = Types(channels)
    for values in (torch.ones(5, types.dim), torch.randn(7, types.dim)):
        palette = FieldPalette.fit(values, types)
        for result in (palette.colors(values), palette.arrows(values)):
            assert result.shape == (len(values), 3)
            assert np.isfinite(result).all()
    assert (palette.vector_length > 0) == (len(channels) > 1 and channels[1] > 0)


def test_one_palette_serves_several_fields() -> None:
    fields = [field_of(random_object(seed)) for seed in range(2)]
    both = palette_of_field(*fields)
    expected = FieldPalette.fit(torch.cat([values_of(field) for field in fields]), TYPES)
    np.testing.assert_allclose(both.scalar_axes, expected.scalar_axes)


# --- pictures ------------------------------------------------------------------------------------


def test_the_best_gripper_is_drawn_where_its_pose_says() -> None:
    scene, poses = scene_and_poses()
    camera = view_of_pose(scene, poses[0], GRIPPER, size=SMALL)
    for place in (poses[0][:3, 3], poses[0][:3, :3] @ CONTACT + poses[0][:3, 3]):
        column, row = camera.project(place[None])[0]
        assert 0 < column < SMALL[0]
        assert 0 < row < SMALL[1]
    picture = picture_of_poses(scene, poses, GRIPPER, size=SMALL)
    assert blue(picture) > 0.02
    away = poses.copy()
    away[0, 2, 3] += 0.04
    assert (pixels(picture_of_poses(scene, away, GRIPPER, size=SMALL)) != pixels(picture)).any()


def test_more_poses_add_fainter_grippers() -> None:
    scene, poses = scene_and_poses()
    alone, all_of_them = (
        picture_of_poses(scene, poses, GRIPPER, best=count, size=SMALL) for count in (1, 3)
    )
    assert (pixels(alone) != pixels(all_of_them)).mean() > 0.01


def test_what_is_held_is_drawn_at_the_pose() -> None:
    step = mug_sample()[0].step("place")
    scene = voxel_filter(step.scene, 0.006)
    with_grasp, without = (
        picture_of_poses(scene, step.targets, GRIPPER, grasp=grasp, size=SMALL)
        for grasp in (step.grasp, None)
    )
    assert red(with_grasp) > red(without) + 0.03


def test_sheet_adds_the_field_under_the_poses() -> None:
    scene, poses = scene_and_poses()
    key = field_of(scene)
    only_poses = picture_of_inference(scene, poses, GRIPPER, size=SMALL)
    sheet = picture_of_inference(scene, poses, GRIPPER, key=key, title="Mugs", size=SMALL)
    assert sheet.width == only_poses.width > 2 * SMALL[0]
    assert sheet.height > only_poses.height + SMALL[1]
    again = picture_of_inference(scene, poses, GRIPPER, key=key, title="Mugs", size=SMALL)
    np.testing.assert_array_equal(pixels(sheet), pixels(again))


def test_a_field_without_vectors_has_no_arrow_panel() -> None:
    scene, poses = scene_and_poses()
    camera = view_of_pose(scene, poses[0], GRIPPER, with_hand=False, size=SMALL)
    both = picture_of_field(scene, field_of(scene), camera=camera)
    colors_only = picture_of_field(scene, field_of(scene, Types((5,))), camera=camera)
    assert both.width > 2 * SMALL[0] > colors_only.width
    assert both.height == colors_only.height


def test_query_points_are_drawn_into_the_field() -> None:
    scene, poses = scene_and_poses()
    key = field_of(scene)
    camera = view_of_pose(scene, poses[0], GRIPPER, with_hand=False, size=SMALL)
    queries = QueryPoints(torch.tensor(CONTACT)[None], torch.ones(1).double(), values_of(key)[:1])
    with_query = picture_of_field(scene, key, camera=camera, queries=queries, pose=poses[0])
    assert (pixels(with_query) != pixels(picture_of_field(scene, key, camera=camera))).any()


@pytest.mark.parametrize("factor", [0.05, 1.0, 4.0])
def test_any_size_and_no_colours(factor: float) -> None:
    scene, poses = scene_and_poses()
    bare = PointCloud(scene.points * factor)
    poses[:, :3, 3] *= factor
    gripper = gripper_from_tip(max(0.15 * factor, 0.005), max(0.08 * factor, 0.005), "x")
    picture = pixels(picture_of_poses(bare, poses, gripper, size=SMALL))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 1000


def test_a_pose_far_from_everything_and_a_cloud_of_few_points_are_drawn() -> None:
    few = PointCloud(np.random.default_rng(0).uniform(-0.05, 0.05, (12, 3)))
    assert blue(picture_of_poses(few, pose_at(0, 0, 3.0)[None], GRIPPER, size=SMALL)) > 0.01
    torch.manual_seed(0)
    plain = EncoderConfig(voxel_size=None, use_colors=False, channels=4, heads=2)
    with torch.no_grad():
        key = DescriptorField(plain, TYPES)(few)
    assert picture_of_field(few, key, camera=view_of_scene(few, size=SMALL)).width > 2 * SMALL[0]


def test_nothing_to_draw_is_refused() -> None:
    scene, poses = scene_and_poses()
    with pytest.raises(OptionError, match="best is 0 of 3 poses"):
        picture_of_poses(scene, poses, GRIPPER, best=0)
    with pytest.raises(OptionError, match="best is 5 of 0 poses"):
        picture_of_inference(scene, poses[:0], GRIPPER)
    with pytest.raises(OptionError, match="3 poses and no gripper"):
        view_of_scene(scene, poses)
    with pytest.raises(OptionError, match="no field"):
        palette_of_field()


def test_spread_points_keep_their_distance_and_leave_no_gap() -> None:
    rng = np.random.default_rng(0)
    points, mark = rng.uniform(size=(300, 3)), rng.uniform(size=300)
    chosen = _spread(points, mark, 0.3)
    gaps = np.linalg.norm(points[chosen][:, None] - points[chosen], axis=2)
    assert (gaps + np.eye(len(chosen))).min() > 0.3
    assert np.linalg.norm(points[:, None] - points[chosen], axis=2).min(axis=1).max() <= 0.3
    assert chosen[0] == mark.argmax()

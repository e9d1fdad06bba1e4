"""Pictures of demonstrations show what they should, whatever the demonstrations hold."""

import numpy as np
import pytest
from PIL import Image

from handful.clouds import PointCloud
from handful.demos import (
    HANDS,
    Action,
    ContactFrame,
    Demonstration,
    DemoSet,
    Gripper,
    MugShape,
    Step,
    gripper_from_tip,
    gripper_named,
    make_sample,
)
from handful.demos.synthetic import GRIPPER
from handful.errors import OptionError
from handful.render import ColoredMesh
from handful.viz import hand_mesh, picture_of_demos, picture_of_step
from handful.viz._demos import STRIP, VIEW
from handful.viz._hand import hand_length, hand_points, held_width


@pytest.fixture(scope="module")
def sample() -> DemoSet:
    return make_sample(2, seed=3)


def share(image: Image.Image, color: int) -> float:
    """How much of the scene's picture is clearly red (0), green (1) or blue (2)."""
    pixels = np.asarray(image)[: VIEW[1], : VIEW[0]].astype(float)
    others = np.delete(pixels, color, axis=2).max(axis=2)
    return float((pixels[..., color] > 1.4 * others).mean())


def scaled(step: Step, factor: float) -> Step:
    targets = step.targets.copy()
    targets[:, :3, 3] *= factor
    return Step(step.name, step.action, PointCloud(step.scene.points * factor), targets)


def without_grasp(step: Step) -> Step:
    return Step(step.name, step.action, step.scene, step.targets)


def test_steps_show_mug_hanger_and_hand(sample: DemoSet) -> None:
    pick, place = (
        picture_of_step(sample[0].step(name), sample.gripper) for name in ("pick", "place")
    )
    assert pick.size == (VIEW[0] + 2 + STRIP[0], VIEW[1])
    assert share(pick, 0) > 0.03
    assert share(place, 0) > 0.02
    assert share(place, 1) > 0.02


def test_hand_is_where_the_target_says(sample: DemoSet) -> None:
    step = sample[0].step("pick")
    with_hand = np.asarray(picture_of_step(step, GRIPPER))[:, : VIEW[0]]
    lifted = step.targets.copy()
    lifted[:, 2, 3] += 0.05
    moved = picture_of_step(step.changed(targets=lifted), GRIPPER)
    assert (np.asarray(moved)[:, : VIEW[0]] != with_hand).mean() > 0.05


def test_sketch_stands_in_for_a_missing_grasp(sample: DemoSet) -> None:
    step = sample[0].step("pick")
    picture = picture_of_step(without_grasp(step), GRIPPER)
    assert picture.size == VIEW
    assert share(picture, 2) > 0.03


def test_hand_without_a_described_shape_is_sketched(sample: DemoSet) -> None:
    plain = Gripper(GRIPPER.contact, GRIPPER.axis, GRIPPER.opening)
    picture = picture_of_step(without_grasp(sample[0].step("pick")), plain)
    assert 0.002 < share(picture, 2) < share_of_shape(sample)


def share_of_shape(sample: DemoSet) -> float:
    return share(picture_of_step(without_grasp(sample[0].step("pick")), GRIPPER), 2)


def test_picture_depends_on_the_action_and_not_on_the_name(sample: DemoSet) -> None:
    step = sample[0].step("place")
    as_it_is, renamed, other = (
        np.asarray(picture_of_step(Step(name, action, step.scene, step.targets), GRIPPER))
        for name, action in (
            ("place", Action.PLACE), ("hang the mug", Action.PLACE), ("place", Action.PICK)
        )
    )  # fmt: skip
    np.testing.assert_array_equal(as_it_is, renamed)
    assert (as_it_is != other).any()


def test_picture_does_not_depend_on_where_the_gripper_frame_is(sample: DemoSet) -> None:
    """A frame at the flange and one at the contact describe the same hand at the same place."""
    flange = Gripper(ContactFrame((0.0, 0.0, 0.15)), "x", 0.08)
    tool = Gripper(ContactFrame((0.0, 0.0, 0.0)), "x", 0.08)
    step = without_grasp(sample[0].step("pick"))
    moved = step.changed(targets=step.targets @ flange.T_gripper_other(tool))
    one, two = (np.asarray(picture_of_step(*pair)) for pair in ((step, flange), (moved, tool)))
    assert (one != two).mean() < 0.01
    assert (one != np.asarray(picture_of_step(step, tool))).mean() > 0.05


def test_grasp_cloud_is_shown_with_the_described_hand(sample: DemoSet) -> None:
    step = sample[0].step("pick")
    plain = Gripper(GRIPPER.contact, GRIPPER.axis, GRIPPER.opening)
    strips = [np.asarray(picture_of_step(step, hand))[:, VIEW[0] :] for hand in (GRIPPER, plain)]
    bluish = [(strip[..., 2] > strip[..., 0].astype(int) + 20).mean() for strip in strips]
    assert bluish[0] > bluish[1] + 0.05


@pytest.mark.parametrize("factor", [0.02, 1.0, 4.0])
def test_any_size_and_no_colours(sample: DemoSet, factor: float) -> None:
    tip = float(np.clip(0.15 * factor, 0.005, 1.0))
    gripper = gripper_from_tip(tip, max(0.005, 0.08 * factor), "x")
    picture = picture_of_step(scaled(sample[0].step("pick"), factor), gripper)
    pixels = np.asarray(picture).reshape(-1, 3)
    empty = (pixels == pixels[0]).all(axis=1).mean()
    assert empty < 0.8
    assert len(np.unique(pixels, axis=0)) > 1000


def test_target_far_from_everything_is_still_drawn(sample: DemoSet) -> None:
    step = sample[0].step("pick")
    away = step.targets.copy()
    away[:, 0, 3] += 5.0
    pixels = np.asarray(picture_of_step(without_grasp(step).changed(targets=away), GRIPPER))
    assert (pixels[..., 2] > pixels[..., 0].astype(int) + 30).mean() > 0.03


def test_sheet_has_a_panel_for_each_step(sample: DemoSet) -> None:
    step = sample[0].step("pick")
    several = step.changed(targets=np.concatenate([step.targets] * 2))
    only_pick = Demonstration("only_pick", (several,))
    uneven = DemoSet((sample[0], only_pick), sample.gripper, description="two of them")
    one, both = (picture_of_demos(uneven, max_demos=count, voxel=0.01) for count in (1, 2))
    assert one.width == both.width > 2 * (VIEW[0] + STRIP[0])
    assert both.height - one.height > VIEW[1]
    empty_panel = np.asarray(both)[-VIEW[1] // 2 :, -VIEW[0] // 2 :]
    assert (empty_panel == 255).all()


def test_bad_count_is_refused(sample: DemoSet) -> None:
    with pytest.raises(OptionError, match="max_demos is 0"):
        picture_of_demos(sample, max_demos=0)


# --- the hand ------------------------------------------------------------------------------------


def in_contact_frame(gripper: Gripper, points: np.ndarray) -> np.ndarray:
    """Opening along x, approach along z, contact at the origin."""
    T_contact_gripper = np.linalg.inv(gripper.T_gripper_contact)
    return points @ T_contact_gripper[:3, :3].T + T_contact_gripper[:3, 3]


def gap_at_the_tips(gripper: Gripper, mesh: ColoredMesh) -> float:
    """Distance between the fingers where they end."""
    local = in_contact_frame(gripper, mesh.vertices)
    ends = local[local[:, 2] > local[:, 2].max() - 1e-6, 0]
    return float(ends[ends > -1e-9].min() - ends[ends < 1e-9].max())


def turned_frame(seed: int, axis: str) -> Gripper:
    rng = np.random.default_rng(seed)
    quat = rng.normal(size=4)
    quat /= np.linalg.norm(quat)
    position = rng.uniform(-0.2, 0.2, 3)
    return Gripper(ContactFrame(tuple(position.tolist()), tuple(quat.tolist())), axis, 0.07)


@pytest.mark.parametrize("axis", ["x", "y"])
@pytest.mark.parametrize("seed", range(3))
def test_sketched_fingers_end_at_the_contact_and_open_along_its_axis(seed: int, axis: str) -> None:
    gripper = turned_frame(seed, axis)
    for width in (None, 0.02):
        mesh = hand_mesh(gripper, width=width)
        local = in_contact_frame(gripper, mesh.vertices)
        assert local[:, 2].max() == pytest.approx(0.0, abs=1e-9)
        assert local[:, 2].min() == pytest.approx(-hand_length(gripper))
        assert gap_at_the_tips(gripper, mesh) == pytest.approx(width or 0.07)
        assert np.abs(local[:, 1]).max() < 0.01
    other = Gripper(gripper.contact, "y" if axis == "x" else "x", 0.07)
    swapped = in_contact_frame(other, mesh.vertices)
    assert np.abs(swapped[:, 1]).max() > 0.01


@pytest.mark.parametrize("name", sorted(HANDS))
def test_described_hand_is_drawn_with_its_fingers_at_the_width(name: str) -> None:
    gripper = gripper_named(name)
    assert gripper.shape is not None
    corners = np.concatenate([vertices for vertices, _ in gripper.shape.surfaces()])
    np.testing.assert_allclose(hand_mesh(gripper).vertices, corners)
    wide = gripper.opening
    for width, shown in ((None, wide), (0.03, 0.03), (-1.0, 0.0), (9.0, wide)):
        mesh = hand_mesh(gripper, width=width)
        assert gap_at_the_tips(gripper, mesh) == pytest.approx(shown, abs=2e-4)
    height = corners @ gripper.T_gripper_contact[:3, 2]
    assert hand_length(gripper) == pytest.approx(max(np.ptp(height), wide))


def test_points_of_a_hand_lie_on_its_surface_everywhere() -> None:
    gripper = gripper_named("simulated")
    assert gripper.shape is not None
    points = hand_points(gripper)
    assert gripper.shape.contains(points, 1e-6).all()
    fingers = points[:, 2] > 0.062
    # Both sides of the two fingers, against all boxes, by area.
    area = [2 * (a * b + b * c + c * a) for a, b, c in (box.size for box in gripper.shape.boxes)]
    assert fingers.mean() == pytest.approx(sum(area[2:]) / sum(area), abs=0.04)
    np.testing.assert_array_equal(points, hand_points(gripper))


def test_fingers_are_drawn_about_as_far_apart_as_what_they_hold(sample: DemoSet) -> None:
    with_hand = sample[0].step("place").grasp
    assert with_hand is not None
    wall = MugShape().wall
    assert held_width(GRIPPER, with_hand) == pytest.approx(wall + 0.003, abs=0.002)
    rng = np.random.default_rng(0)
    block = GRIPPER.T_gripper_contact[:3, 3] + rng.uniform(-1, 1, (3000, 3)) * [0.02, 0.01, 0.03]
    assert held_width(GRIPPER, PointCloud(block)) == pytest.approx(0.04, abs=0.002)
    elsewhere = PointCloud(block + np.array([0.0, 0.3, 0.0]))
    assert held_width(GRIPPER, elsewhere) == GRIPPER.opening

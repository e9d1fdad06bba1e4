"""Pictures of demonstrations show what they should, whatever the demonstrations hold."""

import numpy as np
import pytest
from PIL import Image

from handful.clouds import PointCloud
from handful.demos import Demonstration, DemoSet, Gripper, Step
from handful.demos._picture import STRIP, VIEW, picture_of_demos, picture_of_step
from handful.demos.synthetic import GRIPPER, make_sample
from handful.errors import OptionError


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
    return Step(step.name, PointCloud(step.scene.points * factor), targets)


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
    moved = picture_of_step(Step("pick", step.scene, lifted, step.grasp), GRIPPER)
    assert (np.asarray(moved)[:, : VIEW[0]] != with_hand).mean() > 0.05


def test_sketch_stands_in_for_a_missing_grasp(sample: DemoSet) -> None:
    step = sample[0].step("pick")
    picture = picture_of_step(Step("pick", step.scene, step.targets), GRIPPER)
    assert picture.size == VIEW
    assert share(picture, 2) > 0.03


@pytest.mark.parametrize("factor", [0.02, 1.0, 4.0])
def test_any_size_and_no_colours(sample: DemoSet, factor: float) -> None:
    tip = float(np.clip(0.15 * factor, 0.005, 1.0))
    gripper = Gripper(tip=tip, opening=max(0.005, 0.08 * factor))
    picture = picture_of_step(scaled(sample[0].step("pick"), factor), gripper)
    pixels = np.asarray(picture).reshape(-1, 3)
    empty = (pixels == pixels[0]).all(axis=1).mean()
    assert empty < 0.8
    assert len(np.unique(pixels, axis=0)) > 1000


def test_target_far_from_everything_is_still_drawn(sample: DemoSet) -> None:
    step = sample[0].step("pick")
    away = step.targets.copy()
    away[:, 0, 3] += 5.0
    pixels = np.asarray(picture_of_step(Step("pick", step.scene, away), GRIPPER))
    assert (pixels[..., 2] > pixels[..., 0].astype(int) + 30).mean() > 0.03


def test_sheet_has_a_panel_for_each_step(sample: DemoSet) -> None:
    step = sample[0].step("pick")
    several = Step("pick", step.scene, np.concatenate([step.targets] * 2), step.grasp)
    uneven = DemoSet((sample[0], Demonstration("only_pick", (several,))), description="two of them")
    one, both = (picture_of_demos(uneven, max_demos=count, voxel=0.01) for count in (1, 2))
    assert one.width == both.width > 2 * (VIEW[0] + STRIP[0])
    assert both.height - one.height > VIEW[1]
    empty_panel = np.asarray(both)[-VIEW[1] // 2 :, -VIEW[0] // 2 :]
    assert (empty_panel == 255).all()


def test_bad_count_is_refused(sample: DemoSet) -> None:
    with pytest.raises(OptionError, match="max_demos is 0"):
        picture_of_demos(sample, max_demos=0)

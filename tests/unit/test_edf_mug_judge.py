"""The judge of `benchmarks/edf_mug` on the project's own sample, where the truth is known."""

import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from samples import mug_sample

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from edf_mug.cylinders import FitError
from edf_mug.evaluate import judged, split
from edf_mug.hand import T_gripper_tips, in_another_frame
from edf_mug.judge import judge_grip, judge_hanging, judge_pick, judge_place
from edf_mug.models import make_model
from edf_mug.report import Result, ResultFile, area_under_roc, read_lines, report, wilson
from edf_mug.shapes import find_hanger, find_mug, find_table, is_green, is_red
from edf_mug.variants import VARIANTS, make_variant

from handful.demos import HandShape, HangerShape, MugShape

DEMOS = (0, 1)


def motion(rotvec=(0.0, 0.0, 0.0), shift=(0.0, 0.0, 0.0)) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3] = Rotation.from_rotvec(rotvec).as_matrix()
    pose[:3, 3] = shift
    return pose


def about(point, rotvec) -> np.ndarray:
    return motion(shift=point) @ motion(rotvec) @ motion(shift=-np.asarray(point))


@lru_cache
def pick_of(index: int):
    step = mug_sample().demonstrations[index].step("pick")
    return step, find_mug(step.scene)


@lru_cache
def place_of(index: int):
    step = mug_sample().demonstrations[index].step("place")
    return step, find_hanger(step.scene), find_table(step.scene), find_mug(step.grasp)


# --- fits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", DEMOS)
def test_fits_recover_the_shapes_the_sample_was_made_of(index):
    shape, hanger_shape = MugShape(), HangerShape()
    for mug in (pick_of(index)[1], place_of(index)[3]):
        assert mug.outer_radius == pytest.approx(shape.radius, abs=5e-4)
        assert mug.inner_radius == pytest.approx(shape.radius - shape.wall, abs=1.5e-3)
        assert mug.height == pytest.approx(shape.height, abs=1.5e-3)
    _, hanger, table, _ = place_of(index)
    assert hanger.arm.radius == pytest.approx(hanger_shape.arm_radius, abs=5e-4)
    assert hanger.arm.axis[2] == pytest.approx(np.sin(hanger_shape.arm_rise), abs=0.02)
    tip = hanger_shape.arm_point(hanger_shape.arm_length)[2]
    assert hanger.tip[2] == pytest.approx(tip, abs=6e-3)  # the tube's end is cut square
    assert table.up @ [0.0, 0.0, 1.0] > 0.999


def test_fits_move_with_the_cloud():
    step, mug = pick_of(0)
    moved = motion((0.3, 2.0, -1.0), (0.1, -0.2, 0.3))
    again = find_mug(step.scene.transformed(moved))
    np.testing.assert_allclose(again.axis, moved[:3, :3] @ mug.axis, atol=5e-3)
    np.testing.assert_allclose(again.rim, (moved @ np.append(mug.rim, 1.0))[:3], atol=1e-3)
    np.testing.assert_allclose(again.handle.out, moved[:3, :3] @ mug.handle.out, atol=1e-2)


def test_the_arm_passes_through_the_opening_and_not_outside_it():
    handle = place_of(0)[3].handle
    assert handle.clearance(handle.center) > 0.01
    for direction in (handle.out, -handle.out, handle.up, -handle.up):
        assert handle.clearance(handle.center + 0.04 * direction) < 0


def test_scenes_without_mug_or_hanger_are_refused():
    step, _ = pick_of(0)
    with pytest.raises(FitError, match=r"red \(mug\)"):
        find_mug(step.scene.selected(~is_red(step.scene)))
    with pytest.raises(FitError, match=r"green \(hanger\)"):
        find_hanger(step.scene.selected(~is_green(step.scene)))


# --- pick --------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", DEMOS)
def test_demonstrated_picks_pass(index):
    step, _ = pick_of(index)
    verdict = judge_pick(step.scene, step.targets[0], mug_sample().gripper)
    assert verdict.ok, verdict.reasons


TIP = (0.0, 0.0, 0.15)

WRONG_IN_THE_HAND = {
    "5 cm outwards": motion(shift=(0.05, 0, 0)),
    "5 cm inwards": motion(shift=(-0.05, 0, 0)),
    "5 cm back": motion(shift=(0, 0, -0.05)),
    "5 cm deeper": motion(shift=(0, 0, 0.05)),
    "tilted by 30 degrees": about(TIP, (np.deg2rad(30), 0, 0)),
    "from the side": about(TIP, (np.pi / 2, 0, 0)),
    "from below": about(TIP, (np.pi, 0, 0)),
    "across the wall": about(TIP, (0, 0, np.pi / 2)),
}


@pytest.mark.parametrize("index", DEMOS)
@pytest.mark.parametrize("change", WRONG_IN_THE_HAND.values(), ids=list(WRONG_IN_THE_HAND))
def test_wrong_picks_fail(index, change):
    step, mug = pick_of(index)
    assert not judge_grip(mug, step.targets[0] @ change, mug_sample().gripper).ok


def grip_at(mug, radius: float, depth: float) -> np.ndarray:
    """A gripper over the handle, coming along the axis, fingers along the radius."""
    out = mug.handle.out
    pose = np.eye(4)
    pose[:3, :3] = np.stack([out, np.cross(-mug.axis, out), -mug.axis], axis=1)
    pose[:3, 3] = mug.rim + radius * out + (TIP[2] - depth) * mug.axis
    return pose


@pytest.mark.parametrize("index", DEMOS)
@pytest.mark.parametrize(
    ("radius", "depth"),
    [(0.08, 0.03), (0.045, 0.035), (0.0, 0.02), (0.043, -0.03)],
    ids=["astride the handle", "handle in between", "over the middle", "in mid air"],
)
def test_grips_that_are_not_on_the_rim_fail(index, radius, depth):
    mug = pick_of(index)[1]
    assert not judge_grip(mug, grip_at(mug, radius, depth), mug_sample().gripper).ok


def test_turning_the_gripper_half_round_about_its_approach_changes_nothing():
    step, mug = pick_of(0)
    turned = step.targets[0] @ motion((0, 0, np.pi))
    assert judge_grip(mug, turned, mug_sample().gripper).ok


def test_fingers_that_open_along_y_are_judged_alike():
    step, mug = pick_of(0)
    sideways = replace(mug_sample().gripper, axis="y")
    turned = step.targets[0] @ motion((0, 0, np.pi / 2))
    assert judge_grip(mug, turned, sideways).ok
    assert not judge_grip(mug, step.targets[0], sideways).ok


@pytest.mark.parametrize("index", DEMOS)
def test_verdicts_do_not_depend_on_where_the_gripper_has_its_frame(index):
    step, mug = pick_of(index)
    gripper = mug_sample().gripper
    T_new_old = motion((0.4, -1.0, 2.0), (0.05, -0.1, 0.08))
    other = in_another_frame(gripper, T_new_old)
    for change in (np.eye(4), *WRONG_IN_THE_HAND.values()):
        T_scene_gripper = step.targets[0] @ change
        here = judge_grip(mug, T_scene_gripper, gripper)
        there = judge_grip(mug, T_scene_gripper @ np.linalg.inv(T_new_old), other)
        for one, two in zip(here.measures, there.measures, strict=True):
            assert one.value == pytest.approx(two.value, abs=2e-3), one.name


def test_finger_tips_are_where_the_fingers_end():
    gripper = mug_sample().gripper
    np.testing.assert_allclose(T_gripper_tips(gripper), motion(shift=TIP), atol=1e-9)
    palm = HandShape(tuple(box for box in gripper.shape.boxes if box.side == 0))
    for fingerless in (replace(gripper, shape=None), replace(gripper, shape=palm)):
        with pytest.raises(ValueError, match="no boxes of fingers"):
            T_gripper_tips(fingerless)


def test_random_picks_fail():
    _, mug = pick_of(0)
    rng = np.random.default_rng(0)
    for _ in range(100):
        pose = motion(Rotation.random(random_state=rng).as_rotvec(), rng.uniform(-0.3, 0.3, 3))
        assert not judge_grip(mug, pose, mug_sample().gripper).ok


def test_nan_fails_and_reasons_say_why():
    step, mug = pick_of(0)
    assert not judge_grip(mug, np.full((4, 4), np.nan), mug_sample().gripper).ok
    back = judge_grip(mug, step.targets[0] @ motion(shift=(0, 0, -0.05)), mug_sample().gripper)
    assert any("below the rim" in reason for reason in back.reasons)


# --- place -------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", DEMOS)
def test_demonstrated_places_pass(index):
    step = place_of(index)[0]
    verdict = judge_place(step.scene, step.grasp, step.targets[0])
    assert verdict.ok, verdict.reasons


def wrong_places(step, hanger, mug):
    target = step.targets[0]
    turn = target[:3, :3]
    center = turn @ mug.handle.center + target[:3, 3]
    out, up = turn @ mug.handle.out, turn @ mug.handle.up
    aside = np.cross(hanger.arm.axis, hanger.post.axis)
    yield "beside the arm", motion(shift=0.1 * aside) @ target
    yield "beyond the tip", motion(shift=0.09 * hanger.arm.axis) @ target
    yield "below the arm", motion(shift=(0, 0, -0.08)) @ target
    for name, way, reach in (("out", out, 18), ("in", -out, 0), ("up", up, 27), ("down", -up, 9)):
        missed = mug.handle.reach[reach] + 0.02
        yield f"opening missed by 2 cm, {name}", motion(shift=missed * way) @ target
    yield "arm in the handle's plane", about(center, np.pi / 2 * out) @ target
    mouth = turn @ mug.rim + target[:3, 3]
    yield "mouth on the arm", motion(shift=hanger.tip - mouth) @ target
    upside_down = about(center, np.pi * aside / np.linalg.norm(aside)) @ target
    yield "upside down beside the hanger", motion(shift=(0.15, 0.15, 0)) @ upside_down
    yield "in the table", motion(shift=(0, 0, -0.25)) @ target
    yield "nowhere", np.full((4, 4), np.nan)


@pytest.mark.parametrize("index", DEMOS)
def test_wrong_places_fail(index):
    step, hanger, table, mug = place_of(index)
    for name, pose in wrong_places(step, hanger, mug):
        assert not judge_hanging(hanger, table, mug, step.grasp, pose).ok, name


def test_a_mug_that_moves_along_the_arm_still_hangs():
    step, hanger, table, mug = place_of(0)
    for along in (-0.02, 0.02, 0.04):
        pose = motion(shift=along * hanger.arm.axis) @ step.targets[0]
        verdict = judge_hanging(hanger, table, mug, step.grasp, pose)
        assert verdict.ok, verdict.reasons


def test_a_mug_that_the_arm_pierces_fails_for_that():
    step, hanger, table, mug = place_of(0)
    inwards = step.targets[0][:3, :3] @ mug.handle.out
    pose = motion(shift=0.03 * inwards) @ step.targets[0]
    verdict = judge_hanging(hanger, table, mug, step.grasp, pose)
    assert any("mug's body" in reason for reason in verdict.reasons)


# --- variants ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", VARIANTS)
def test_carried_targets_pass_in_every_variant(step):
    first, *others = mug_sample()
    for variant in VARIANTS[step]:
        test = make_variant(first, step, variant, 1, others)
        if not test.has_target:
            continue
        pose = test.carried(first.step(step).targets[0])
        if step == "pick":
            verdict = judge_pick(test.judged, pose, mug_sample().gripper)
        else:
            verdict = judge_place(test.judged, test.grasp, pose)
        assert verdict.ok, (variant, verdict.reasons)
        np.testing.assert_allclose(test.carried_back(pose), first.step(step).targets[0], atol=1e-9)


@pytest.mark.parametrize(("step", "color"), [("pick", is_red), ("place", is_green)])
def test_absent_targets_are_absent(step, color):
    first, *others = mug_sample()
    test = make_variant(first, step, "absent", 0, others)
    assert not test.has_target
    assert not color(test.scene).any()
    assert len(test.scene) < len(first.step(step).scene)


def test_variants_are_seeded():
    first, *others = mug_sample()
    for variant in ("laid", "clutter", "moved"):
        scenes = [make_variant(first, "pick", variant, seed, others).scene for seed in (0, 0, 1)]
        np.testing.assert_array_equal(scenes[0].points, scenes[1].points)
        assert scenes[0].points.shape != scenes[2].points.shape or not np.allclose(
            scenes[0].points, scenes[2].points
        )


def test_clutter_keeps_away_from_the_target():
    first, *others = mug_sample()
    test = make_variant(first, "pick", "clutter", 0, others)
    added = test.scene.points[len(test.judged) :]
    assert len(added) > 100
    mug = test.judged.points[is_red(test.judged)]
    assert cKDTree(mug).query(added)[0].min() > 0.03


def test_a_laid_mug_lies_on_the_table():
    first, *others = mug_sample()
    test = make_variant(first, "pick", "laid", 0, others)
    mug = find_mug(test.scene)
    assert abs(mug.axis[2]) < 0.02
    assert mug.points[:, 2].min() == pytest.approx(0.0, abs=1e-3)


def test_unknown_variants_are_named():
    with pytest.raises(ValueError, match="tilted"):
        make_variant(mug_sample().demonstrations[0], "pick", "tilted", 0)


# --- folds and reports -------------------------------------------------------------------------


@pytest.mark.parametrize("step", VARIANTS)
def test_the_two_references_are_at_the_ends_of_the_judges_scale(step, tmp_path):
    first, *others = mug_sample()
    test = make_variant(first, step, "as_is", 0, others)
    gripper = mug_sample().gripper
    rates = {}
    for name in ("truth", "random"):
        model = make_model(name, step, mug_sample(), 0, tmp_path)
        poses = model.answer(test, first.step(step), 20).T_scene_gripper
        rates[name] = np.mean([verdict.ok for verdict in judged(test, poses, gripper)])
    assert rates == {"truth": 1.0, "random": 0.0}


def test_folds_leave_every_demonstration_out_once():
    demos = mug_sample()
    left_out = []
    for fold in range(2):
        out, training = split(demos, fold, 2, None, 0)
        assert not {demo.name for demo in out} & {demo.name for demo in training}
        left_out += [demo.name for demo in out]
    assert sorted(left_out) == sorted(demo.name for demo in demos)


def result(demo: str, variant: str = "as_is", ok: bool = True) -> Result:
    pose = np.eye(4).tolist()
    target = not variant.startswith("absent")
    sure = 0.9 if target else 0.1
    return Result(0, "pick", demo, variant, 0, target, ok, 1.0, (), -1.0, sure, 0.2, pose, pose)


def test_an_interrupted_run_goes_on_after_its_last_whole_line(tmp_path):
    store = ResultFile(tmp_path / "fold_0.pick.jsonl")
    store.add(result("demo_0"))
    store.add(result("demo_1"))
    text = store.path.read_text()
    store.path.write_text(text[:-20])
    again = ResultFile(store.path)
    assert again.done() == {("pick", "demo_0", "as_is", 0)}
    again.add(result("demo_1"))
    assert [line.demo for line in read_lines(store.path)] == ["demo_0", "demo_1"]


def test_the_report_counts():
    lines = [result("a"), result("b", ok=False), result("a", "absent"), result("a", "moved")]
    text = report(lines, "run")
    assert "1/2" in text
    assert "area under the ROC curve 1.000" in text
    assert "same verdict 1/1" in text


def test_wilson_and_the_area_under_the_curve():
    low, high = wilson(9, 10)
    assert low == pytest.approx(0.596, abs=1e-3)
    assert high == pytest.approx(0.982, abs=1e-3)
    assert area_under_roc([0.9, 0.8], [0.1, 0.85]) == pytest.approx(0.75)
    assert area_under_roc([0.5], [0.5]) == pytest.approx(0.5)
    assert np.isnan(area_under_roc([], [0.5]))

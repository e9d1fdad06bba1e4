"""Editing demonstration sets: what changes is what was asked for, and nothing else."""

import numpy as np
import pytest

from handful.clouds import Box
from handful.demos import (
    HANDS,
    DemoSet,
    cropped_demos,
    dropped_demos,
    gripper_named,
    merged_demos,
    regripped_demos,
    renamed_demos,
)
from handful.errors import CloudError, DemoError
from samples import mug_sample, small_demos


def names_of(demos: DemoSet) -> list[str]:
    return [demo.name for demo in demos]


def assert_same(one: DemoSet, other: DemoSet, atol: float = 0.0) -> None:
    """The same clouds and poses; names may differ."""
    for demo, demo2 in zip(one, other, strict=True):
        for step, step2 in zip(demo.steps, demo2.steps, strict=True):
            np.testing.assert_allclose(step.targets, step2.targets, atol=atol)
            np.testing.assert_array_equal(step.scene.points, step2.scene.points)
            assert (step.grasp is None) == (step2.grasp is None)


# --- merge and drop: a set is the sum of its parts ---------------------------------------------


def test_dropping_undoes_merging():
    one = small_demos(2)
    other = renamed_demos(small_demos(3), {name: f"b_{name}" for name in names_of(small_demos(3))})
    whole = merged_demos([one, other])
    assert names_of(whole) == names_of(one) + names_of(other)
    assert_same(dropped_demos(whole, names_of(other)), one)
    assert_same(dropped_demos(whole, names_of(one)), other)


def test_repeated_names_are_refused_or_numbered():
    twice = [small_demos(2), small_demos(2), small_demos(1)]
    with pytest.raises(DemoError, match=r"set \[1\] has a demonstration 'demo_0'.*--number"):
        merged_demos(twice)
    assert names_of(merged_demos(twice, number=True)) == [
        "demo_0", "demo_1", "demo_0_2", "demo_1_2", "demo_0_3",
    ]  # fmt: skip


def test_sets_of_other_grippers_or_tasks_are_not_merged():
    one = small_demos(1)
    other = regripped_demos(renamed_demos(one, {"demo_0": "x"}), gripper_named("franka-hand"))
    with pytest.raises(DemoError, match=r"set \[1\] was shown with another gripper.*regrip"):
        merged_demos([one, other])
    swapped = renamed_demos(one, {"demo_0": "x"}, {"pick": "place", "place": "pick"})
    with pytest.raises(DemoError, match="a set shows one task"):
        merged_demos([one, swapped])
    with pytest.raises(DemoError, match="got none"):
        merged_demos([])


def test_a_step_can_be_dropped():
    left = dropped_demos(small_demos(2), steps=["pick"])
    assert left.task.names == ("place",)
    assert len(left) == 2


@pytest.mark.parametrize(
    ("names", "steps", "told"),
    [
        (["demo_7"], [], "unknown demonstration 'demo_7'. Did you mean"),
        ([], ["pik"], "unknown step 'pik'. Did you mean 'pick'"),
        (["demo_0", "demo_1"], [], "all 2 demonstrations would be dropped"),
        ([], ["pick", "place"], "all 2 demonstrations would be dropped"),
    ],
)
def test_what_cannot_be_dropped_is_told(names, steps, told):
    with pytest.raises(DemoError, match=told):
        dropped_demos(small_demos(2), names, steps)


# --- crop ----------------------------------------------------------------------------------------


def test_cropping_keeps_what_is_inside_and_all_else_as_it_is():
    box, demos = Box((-0.1, -0.2, -0.2), (0.2, 0.2, 0.2)), small_demos(2)
    cropped = cropped_demos(demos, box)
    for demo, before in zip(cropped, demos, strict=True):
        for step, whole in zip(demo.steps, before.steps, strict=True):
            inside = box.contains(whole.scene.points)
            assert 0 < inside.sum() < len(inside)
            np.testing.assert_array_equal(step.scene.points, whole.scene.points[inside])
            np.testing.assert_array_equal(step.targets, whole.targets)
            assert step.grasp is whole.grasp
    assert_same(cropped_demos(cropped, box), cropped)


def test_a_box_beside_the_scene_is_told():
    with pytest.raises(CloudError, match="'demo_0', step 'pick': nothing of the scene"):
        cropped_demos(small_demos(1), Box((5.0, 5.0, 5.0), (6.0, 6.0, 6.0)))


# --- rename --------------------------------------------------------------------------------------


def test_renaming_back_is_nothing():
    demos = small_demos(2)
    there = renamed_demos(demos, {"demo_0": "first"}, {"pick": "take it"})
    assert names_of(there) == ["first", "demo_1"]
    assert there.task.names == ("take it", "place")
    back = renamed_demos(there, {"first": "demo_0"}, {"take it": "pick"})
    assert names_of(back) == names_of(demos)
    assert back.task == demos.task
    assert_same(back, demos)


def test_two_names_can_be_exchanged():
    there = renamed_demos(small_demos(2), {"demo_0": "demo_1", "demo_1": "demo_0"})
    assert names_of(there) == ["demo_1", "demo_0"]


@pytest.mark.parametrize(
    ("names", "steps", "told"),
    [
        ({"demo_0": "demo_1"}, {}, "share the name 'demo_1'"),
        ({"demo_9": "x"}, {}, "unknown demonstration 'demo_9'"),
        ({"demo_0": "a/b"}, {}, "use 1 to 100 letters"),
        ({}, {"pick": "place"}, "no two of the same name"),
        ({}, {"pick": "report"}, "the name of a folder"),
    ],
)
def test_names_that_cannot_be_are_told(names, steps, told):
    with pytest.raises(DemoError, match=told):
        renamed_demos(small_demos(2), names, steps)


# --- regrip --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(HANDS))
def test_the_contact_frame_stays_where_it_was(name):
    demos, other = small_demos(2), gripper_named(name)
    there = regripped_demos(demos, other)
    assert there.gripper == other
    for demo, before in zip(there, demos, strict=True):
        for step, whole in zip(demo.steps, before.steps, strict=True):
            np.testing.assert_allclose(
                step.targets @ other.T_gripper_contact,
                whole.targets @ demos.gripper.T_gripper_contact,
                atol=1e-12,
            )


def test_what_is_held_stays_where_it_was_in_the_scene():
    demos, other = small_demos(1), gripper_named("franka-hand")
    before = demos[0].step("place")
    after = regripped_demos(demos, other)[0].step("place")
    body = demos.gripper.is_hand(before.grasp.points)
    np.testing.assert_allclose(
        after.grasp.transformed(after.targets[0]).points,
        before.grasp.selected(~body).transformed(before.targets[0]).points,
        atol=1e-6,
    )


def test_regripping_there_and_back_is_nothing_to_the_poses():
    demos = small_demos(2)
    there = regripped_demos(demos, gripper_named("robotiq-2f-140"))
    assert not np.allclose(there[0].steps[0].targets, demos[0].steps[0].targets)
    assert_same(regripped_demos(there, demos.gripper), demos, atol=1e-12)


def test_the_old_hand_is_cut_out_of_grasp_clouds():
    demos = mug_sample(1)
    grasp = demos[0].step("place").grasp
    assert demos.gripper.is_hand(grasp.points).sum() > 100
    after = regripped_demos(demos, gripper_named("franka-hand"))[0].step("place").grasp
    T_old_new = demos.gripper.T_gripper_other(gripper_named("franka-hand"))
    assert demos.gripper.is_hand(after.transformed(T_old_new).points, margin=0.005).sum() == 0

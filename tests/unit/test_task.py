"""Tasks as data: names, actions, order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handful.demos import Action, Demonstration, DemoSet, Step, Task, TaskStep, gripper_named
from handful.errors import DemoError
from samples import pose_at, small_cloud

HAND = gripper_named("simulated")


def step(name: str, action: Action = Action.PICK) -> Step:
    return Step(name, action, small_cloud(), pose_at(0, 0, 0.3))


def shown(name: str, *steps: str | Step) -> Demonstration:
    return Demonstration(name, tuple(step(s) if isinstance(s, str) else s for s in steps))


def test_an_action_says_whether_something_is_held_on_the_way():
    assert [action.holding for action in Action] == [False, True]
    assert Action.named("pick") is Action.PICK
    assert Action.named("place") is Action.PLACE
    with pytest.raises(DemoError, match=r"unknown action 'palce'\. Did you mean 'place'"):
        Action.named("palce")


@pytest.mark.parametrize(
    "name", ["pick", "pick mug", "hang-it", "Tasse greifen 2", "größer", "a", "x" * 64, "v1.2"]
)
def test_step_names_are_free(name):
    assert TaskStep(name, Action.PICK).name == name


@pytest.mark.parametrize(
    "name",
    ["", " pick", "pick ", "pick.", "a/b", "../x", ".hidden", "a\nb", "x" * 65, "a\0b", "-a"],
)
def test_a_step_name_can_name_a_folder(name):
    with pytest.raises(DemoError, match="step name"):
        TaskStep(name, Action.PICK)
    with pytest.raises(DemoError, match="step name"):
        step(name)


@pytest.mark.parametrize("name", ["bench", "Report", "demos", "curve"])
def test_folders_of_a_run_are_no_step_names(name):
    with pytest.raises(DemoError, match="is the name of a folder that every run has"):
        TaskStep(name, Action.PLACE)


def test_a_task_has_steps_of_different_names_and_any_actions():
    four = Task(
        tuple(TaskStep(f"step {n}", action) for n, action in enumerate([*Action, Action.PLACE] * 2))
    )
    assert len(four) == 6
    assert four.names == tuple(f"step {n}" for n in range(6))
    assert four.step("step 2").action is Action.PLACE
    with pytest.raises(DemoError, match="unknown step 'step'"):
        four.step("step")
    with pytest.raises(DemoError, match="need one or more"):
        Task(())


def test_names_that_differ_in_case_only_are_one_folder_and_refused():
    with pytest.raises(DemoError, match="no two of the same name"):
        Task((TaskStep("Pick", Action.PICK), TaskStep("pick", Action.PLACE)))


@given(st.data())
def test_the_task_of_a_set_keeps_the_order_of_every_demonstration(data):
    """Parts of one task, however demonstrations are arranged, give an order that all agree with."""
    names = [f"s{n}" for n in range(data.draw(st.integers(1, 5)))]
    parts = data.draw(
        st.lists(st.lists(st.sampled_from(names), min_size=1, unique=True), min_size=1)
    )
    ordered = [sorted(part) for part in parts]
    demos = DemoSet(tuple(shown(f"d{n}", *part) for n, part in enumerate(ordered)), HAND)
    assert set(demos.task.names) == {name for part in ordered for name in part}
    for part in ordered:
        places = [demos.task.names.index(name) for name in part]
        assert places == sorted(places)


def test_a_step_that_only_some_show_is_a_step_of_the_task():
    demos = DemoSet((shown("a", "open", "close"), shown("b", "open", "turn", "close")), HAND)
    assert demos.task.names == ("open", "turn", "close")
    with pytest.raises(DemoError, match="demonstration 'a': unknown step 'turn'"):
        demos.steps("turn")


@pytest.mark.parametrize(
    ("parts", "task"),
    [
        (["x", "y"], ("x", "y")),
        (["x", "y", "xy"], ("x", "y")),
        (["y", "x", "xy"], ("x", "y")),
        (["xz", "yz", "xy"], ("x", "y", "z")),
        (["z", "xy", "yz"], ("x", "y", "z")),
    ],
)
def test_steps_without_a_shown_order_stand_as_they_first_appear(parts, task):
    """A set whose demonstrations show one step each is no contradiction."""
    demos = DemoSet(tuple(shown(f"d{n}", *part) for n, part in enumerate(parts)), HAND)
    assert demos.task.names == task


def test_a_contradiction_over_three_demonstrations_is_found():
    with pytest.raises(DemoError, match="'c' has the steps"):
        DemoSet((shown("a", "x", "y"), shown("b", "y", "z"), shown("c", "z", "x")), HAND)


def test_demonstrations_that_contradict_each_other_are_refused():
    with pytest.raises(DemoError, match=r"'b' has the steps \('y', 'x'\) in another order"):
        DemoSet((shown("a", "x", "y"), shown("b", "y", "x")), HAND)
    with pytest.raises(
        DemoError,
        match="'b' has the step 'x' with the action 'place' and those before it with 'pick'",
    ):
        DemoSet((shown("a", "x"), shown("b", step("x", Action.PLACE))), HAND)
    with pytest.raises(DemoError, match="no two of the same name"):
        DemoSet((shown("a", "x"), shown("b", "X")), HAND)


def test_a_step_knows_its_place_in_the_task_and_can_be_changed():
    one = step("pick mug")
    assert one.task_step == TaskStep("pick mug", Action.PICK)
    other = one.changed(scene=small_cloud(3), grasp=small_cloud(4))
    assert (other.name, other.action) == (one.name, one.action)
    assert other.scene is not one.scene
    assert other.grasp is not None
    assert (other.targets == one.targets).all()

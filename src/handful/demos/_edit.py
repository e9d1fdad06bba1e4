"""What people do to recordings: merge, drop, crop, rename, and describe with another gripper.

Each function takes a set and returns another; nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from handful.clouds import Box, PointCloud
from handful.demos._gripper import Gripper
from handful.demos._types import Demonstration, DemoSet, Step
from handful.errors import DemoError, EmptyCloudError, errors_at, unknown_name_message


def merged_demos(sets: Sequence[DemoSet], *, number: bool = False) -> DemoSet:
    """All demonstrations of several sets of one task with one gripper.

    Args:
        sets: One or more; the description is that of the first that has one.
        number: Give demonstrations of later sets whose name is taken the next free one: `demo_0`
            becomes `demo_0_2`.

    Raises:
        DemoError: Grippers or tasks differ, or names are taken.
    """
    if not sets:
        raise DemoError("merging needs one demonstration set or more; got none.")
    gripper = replace(sets[0].gripper, name="")
    taken: set[str] = set()
    whole: list[Demonstration] = []
    for index, demos in enumerate(sets):
        if replace(demos.gripper, name="") != gripper:
            raise DemoError(
                f"set [{index}] was shown with another gripper than set [0]: describe it with that "
                "one first (`handful demos regrip`)."
            )
        for demonstration in demos:
            name = _free_name(demonstration.name, taken) if number else demonstration.name
            if name in taken:
                raise DemoError(
                    f"set [{index}] has a demonstration {name!r} and so has one before it: rename "
                    "it, or let repeated names be numbered (--number)."
                )
            taken.add(name)
            whole.append(replace(demonstration, name=name))
    description = next((demos.description for demos in sets if demos.description), "")
    return DemoSet(tuple(whole), sets[0].gripper, description)


def dropped_demos(
    demos: DemoSet, names: Collection[str] = (), steps: Collection[str] = ()
) -> DemoSet:
    """A set without some demonstrations, and without some steps of the rest.

    Args:
        demos: The set.
        names: Demonstrations to leave out.
        steps: Steps to leave out of every demonstration.

    Raises:
        DemoError: There is nothing of that name, or nothing would be left.
    """
    _check_known("demonstration", names, [demonstration.name for demonstration in demos])
    _check_known("step", steps, demos.task.names)
    kept = []
    for demonstration in demos:
        left = tuple(step for step in demonstration.steps if step.name not in steps)
        if demonstration.name not in names and left:
            kept.append(replace(demonstration, steps=left))
    if not kept:
        raise DemoError(f"all {len(demos)} demonstrations would be dropped: leave one or more.")
    return replace(demos, demonstrations=tuple(kept))


def cropped_demos(demos: DemoSet, workspace: Box) -> DemoSet:
    """A set whose scene clouds hold only what is in a box; scene frame.

    Raises:
        EmptyCloudError: Nothing of a scene is in the box.
    """

    def crop(step: Step) -> Step:
        kept = workspace.contains(step.scene.points)
        if kept.sum() < 2:
            low, high = (corner.round(3).tolist() for corner in step.scene.bounds)
            raise EmptyCloudError(
                f"nothing of the scene, which spans {low} to {high} m, is in the workspace "
                f"{list(workspace.lower)} to {list(workspace.upper)} m: give a box in metres, in "
                "the scene frame, that holds what the task needs."
            )
        return step.changed(scene=step.scene.selected(kept))

    return _with_steps(demos, crop)


def renamed_demos(
    demos: DemoSet, names: Mapping[str, str] | None = None, steps: Mapping[str, str] | None = None
) -> DemoSet:
    """A set with other names.

    Args:
        demos: The set.
        names: New names of demonstrations by their old ones.
        steps: New names of steps by their old ones, in every demonstration.

    Raises:
        DemoError: There is nothing of an old name, or a new one is taken or cannot be used.
    """
    names, steps = names or {}, steps or {}
    _check_known("demonstration", names, [demonstration.name for demonstration in demos])
    _check_known("step", steps, demos.task.names)

    def rename(step: Step) -> Step:
        name = steps.get(step.name, step.name)
        return Step(name, step.action, step.scene, step.targets, step.grasp)

    renamed = tuple(
        Demonstration(names.get(one.name, one.name), tuple(map(rename, one.steps))) for one in demos
    )
    return replace(demos, demonstrations=renamed)


def regripped_demos(demos: DemoSet, gripper: Gripper) -> DemoSet:
    """The set as if it had been shown with another gripper.

    Both grippers hold the same thing alike where their contact frames coincide. Targets become
    poses of the other gripper, and grasp clouds come into its frame. The body of the old hand is
    cut out of them where its shape is known; the tips of its fingers stay.

    Args:
        demos: The set.
        gripper: The other gripper.
    """
    old = demos.gripper
    T_old_new = old.T_gripper_other(gripper)
    T_new_old = gripper.T_gripper_other(old)

    def regrip(step: Step) -> Step:
        grasp: PointCloud | None = None
        if step.grasp is not None:
            kept = ~old.is_hand(step.grasp.points)
            grasp = step.grasp.selected(kept) if kept.sum() >= 2 else step.grasp
            grasp = grasp.transformed(T_new_old)
        return step.changed(targets=step.targets @ T_old_new, grasp=grasp)

    return replace(_with_steps(demos, regrip), gripper=gripper)


def _with_steps(demos: DemoSet, change: Callable[[Step], Step]) -> DemoSet:
    """The set with every step changed; errors name the demonstration and the step."""
    whole = []
    for demonstration in demos:
        steps = []
        for step in demonstration.steps:
            with errors_at(f"demonstration {demonstration.name!r}, step {step.name!r}"):
                steps.append(change(step))
        whole.append(replace(demonstration, steps=tuple(steps)))
    return replace(demos, demonstrations=tuple(whole))


def _check_known(kind: str, names: Collection[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise DemoError(unknown_name_message(kind, name, known))


def _free_name(name: str, taken: Collection[str]) -> str:
    number = 1
    while (found := name if number == 1 else f"{name}_{number}") in taken:
        number += 1
    return found

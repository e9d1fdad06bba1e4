"""What is being taught, as one value that never changes: each change gives another."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from handful.clouds import PointCloud
from handful.demos import (
    Action,
    Demonstration,
    DemoSet,
    Gripper,
    Step,
    TaskStep,
    merged_demos,
    regripped_demos,
)
from handful.errors import DemoError, unknown_name_message

Pose = Float[np.ndarray, "4 4"]


@dataclass(frozen=True, eq=False)
class Scene:
    """A cloud that was opened and in which nothing is taught yet.

    Attributes:
        name: Unique among the scenes.
        cloud: The cloud, scene frame.
        grasp: What the gripper holds there, gripper frame, or None.
        pose: T_scene_gripper where a person has put the gripper so far; None if nobody did.
        follows: Name of the demonstration that it becomes a step of; empty for a new one.
        place: Steps of that demonstration that come before it; None for all of them.
    """

    name: str
    cloud: PointCloud
    grasp: PointCloud | None = None
    pose: Pose | None = None
    follows: str = ""
    place: int | None = None


@dataclass(frozen=True, eq=False)
class Document:
    """Everything that is taught in one folder.

    Attributes:
        gripper: What it is taught with.
        scenes: Opened and not taught.
        demonstrations: Taught; may be none.
        description: One sentence for people.
    """

    gripper: Gripper
    scenes: tuple[Scene, ...] = ()
    demonstrations: tuple[Demonstration, ...] = ()
    description: str = ""

    @property
    def demos(self) -> DemoSet | None:
        """The demonstrations as a set, or None when there are none."""
        if not self.demonstrations:
            return None
        return DemoSet(self.demonstrations, self.gripper, self.description)

    # --- scenes ----------------------------------------------------------------------------

    def scene(self, name: str) -> Scene:
        """The scene of that name."""
        for scene in self.scenes:
            if scene.name == name:
                return scene
        names = [scene.name for scene in self.scenes]
        raise DemoError(unknown_name_message("scene", name, names))

    def with_scene(self, scene: Scene) -> Document:
        """Another scene at the end, under its name or the next free one."""
        taken = {one.name for one in self.scenes}
        named = replace(scene, name=free_name(scene_name(scene.name), taken))
        return replace(self, scenes=(*self.scenes, named))

    def without_scene(self, name: str) -> Document:
        """The document without a scene."""
        self.scene(name)
        return replace(self, scenes=tuple(one for one in self.scenes if one.name != name))

    def with_held(self, name: str, grasp: PointCloud | None) -> Document:
        """A scene with something else in the gripper."""
        return self._with_changed(replace(self.scene(name), grasp=grasp))

    def with_draft(self, name: str, pose: Pose) -> Document:
        """A scene with the gripper somewhere else."""
        return self._with_changed(replace(self.scene(name), pose=pose.copy()))

    def _with_changed(self, scene: Scene) -> Document:
        """Another scene in the place of that of its name."""
        scenes = tuple(scene if one.name == scene.name else one for one in self.scenes)
        return replace(self, scenes=scenes)

    def proposed_step(self, scene: str, demo: str) -> TaskStep:
        """What a scene shows, as far as one can tell.

        Args:
            scene: Its name.
            demo: The demonstration that it belongs to; a new one if empty.
        """
        seen, demos = self.scene(scene), self.demos
        task = () if demos is None else demos.task.steps
        done = [one.task_step for one in self._demonstration(demo).steps] if demo else []
        holding = seen.grasp is not None
        if done and seen.follows != demo:
            holding = not done[-1].action.holding
        names = {one.name for one in done}
        for one in task:
            if one.name not in names and one.action.holding == holding:
                return one
        action = next(one for one in Action if one.holding == holding)
        return TaskStep(free_name(action.value, names), action)

    # --- steps -----------------------------------------------------------------------------

    def step(self, demo: str, step: str) -> Step:
        """A step of a demonstration."""
        return self._demonstration(demo).step(step)

    def place_of(self, demo: str, step: str) -> int:
        """How many steps of a demonstration come before one."""
        return [one.name for one in self._demonstration(demo).steps].index(step)

    def taught(self, scene: str, step: str, action: Action, pose: Pose, demo: str = "") -> Document:
        """A scene becomes a step of a demonstration and leaves the scenes.

        Args:
            scene: Its name.
            step: Name of the step.
            action: What the gripper does there.
            pose: T_scene_gripper.
            demo: The demonstration that the step is added to; a new one if empty.
        """
        seen = self.scene(scene)
        held = seen.grasp if action.holding else None
        new = Step(step, action, seen.cloud, pose[None], held)
        if demo:
            old = self._demonstration(demo)
            place = len(old.steps)
            if seen.follows == demo and seen.place is not None:
                place = seen.place
            steps = (*old.steps[:place], new, *old.steps[place:])
            whole = self._replaced(demo, replace(old, steps=steps))
        else:
            name = free_name(f"demo_{scene}", {one.name for one in self.demonstrations})
            whole = (*self.demonstrations, Demonstration(name, (new,)))
        return self._checked(replace(self.without_scene(scene), demonstrations=whole))

    def with_pose(self, demo: str, step: str, target: int, pose: Pose) -> Document:
        """One of the right poses of a step is another."""
        poses = self.step(demo, step).targets.copy()
        poses[target] = pose
        return self._with_step(demo, step, lambda old: old.changed(targets=poses))

    def with_further_pose(self, demo: str, step: str, pose: Pose) -> Document:
        """One more right pose of a step, at the end."""
        poses = np.concatenate([self.step(demo, step).targets, pose[None]])
        return self._with_step(demo, step, lambda old: old.changed(targets=poses))

    def without_pose(self, demo: str, step: str, target: int) -> Document:
        """One right pose of a step less; the last one stays."""
        poses = np.delete(self.step(demo, step).targets, target, axis=0)
        if not len(poses):
            raise DemoError(f"step {step!r} has no other pose: remove the step instead.")
        return self._with_step(demo, step, lambda old: old.changed(targets=poses))

    def with_grasp(self, demo: str, step: str, grasp: PointCloud) -> Document:
        """A step with something else in the gripper."""
        return self._with_step(demo, step, lambda old: old.changed(grasp=grasp))

    def without_step(self, demo: str, step: str) -> Document:
        """A step is no longer taught; its scene is one of the scenes again, the last one."""
        old = self._demonstration(demo)
        gone = old.step(step)
        place = self.place_of(demo, step)
        left = tuple(one for one in old.steps if one.name != step)
        whole = (
            self._replaced(demo, replace(old, steps=left))
            if left
            else tuple(one for one in self.demonstrations if one.name != demo)
        )
        pose = gone.targets[0].copy()
        follows = (demo, place) if left else ("", None)
        scene = Scene(demo, gone.scene, gone.grasp, pose, *follows)
        return replace(self, demonstrations=whole).with_scene(scene)

    # --- the whole set ---------------------------------------------------------------------

    def with_gripper(self, gripper: Gripper) -> Document:
        """The same with another gripper, which holds everything alike."""
        scenes = tuple(_regripped(one, self.gripper, gripper) for one in self.scenes)
        document = replace(self, scenes=scenes, gripper=gripper)
        if not self.demonstrations:
            return document
        return document._of(regripped_demos(self._set(), gripper))

    def with_demos(self, demos: DemoSet) -> Document:
        """The demonstrations of another set besides; its gripper where there were none before."""
        if not self.demonstrations:
            return self.with_gripper(demos.gripper)._of(demos)
        return self._of(merged_demos([self._set(), demos], number=True))

    def _set(self) -> DemoSet:
        demos = self.demos
        if demos is None:
            raise DemoError("nothing is taught yet: open a scene, and add a step in it.")
        return demos

    def _of(self, demos: DemoSet) -> Document:
        return replace(
            self,
            gripper=demos.gripper,
            demonstrations=demos.demonstrations,
            description=demos.description,
        )

    def _demonstration(self, name: str) -> Demonstration:
        for one in self.demonstrations:
            if one.name == name:
                return one
        names = [one.name for one in self.demonstrations]
        raise DemoError(unknown_name_message("demonstration", name, names))

    def _replaced(self, name: str, new: Demonstration) -> tuple[Demonstration, ...]:
        return tuple(new if one.name == name else one for one in self.demonstrations)

    def _with_step(self, demo: str, step: str, change: Callable[[Step], Step]) -> Document:
        old = self._demonstration(demo)
        old.step(step)
        steps = tuple(change(one) if one.name == step else one for one in old.steps)
        whole = self._replaced(demo, replace(old, steps=steps))
        return self._checked(replace(self, demonstrations=whole))

    def _checked(self, document: Document) -> Document:
        """The document, once it is clear that its demonstrations are a set.

        Raises:
            DemoError: They show different tasks.
        """
        if document.demonstrations:
            DemoSet(document.demonstrations, document.gripper, document.description)
        return document


def _regripped(scene: Scene, old: Gripper, new: Gripper) -> Scene:
    """A scene in which another gripper stands and holds alike."""
    if scene.pose is None and scene.grasp is None:
        return scene
    action = next(one for one in Action if one.holding)
    pose = scene.pose
    if pose is None:
        pose = np.eye(4)
        pose[:3, 3] = scene.cloud.points[0]
    step = Step(action.value, action, scene.cloud, pose[None], scene.grasp)
    demos = DemoSet((Demonstration("scene", (step,)),), old)
    held = regripped_demos(demos, new)[0].steps[0]
    moved = None if scene.pose is None else held.targets[0].copy()
    return replace(scene, grasp=held.grasp, pose=moved)


def free_name(name: str, taken: set[str]) -> str:
    """The name, or the next free one: `cup`, `cup_2`."""
    number = 1
    while (found := name if number == 1 else f"{name}_{number}") in taken:
        number += 1
    return found


def scene_name(name: str) -> str:
    """A name for a scene, and for its file, from one that somebody else may have chosen."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:60] or "scene"

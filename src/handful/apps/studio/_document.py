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
        follows: Name of the demonstration whose next step this is; empty for a new one.
    """

    name: str
    cloud: PointCloud
    grasp: PointCloud | None = None
    follows: str = ""


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
        self.scene(name)
        scenes = tuple(
            replace(one, grasp=grasp) if one.name == name else one for one in self.scenes
        )
        return replace(self, scenes=scenes)

    # --- steps -----------------------------------------------------------------------------

    def step(self, demo: str, step: str) -> Step:
        """A step of a demonstration."""
        return self._demonstration(demo).step(step)

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
            whole = self._replaced(demo, replace(old, steps=(*old.steps, new)))
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
        """A step is no longer taught; its scene is one of the scenes again."""
        old = self._demonstration(demo)
        gone = old.step(step)
        left = tuple(one for one in old.steps if one.name != step)
        whole = (
            self._replaced(demo, replace(old, steps=left))
            if left
            else tuple(one for one in self.demonstrations if one.name != demo)
        )
        scene = Scene(demo, gone.scene, gone.grasp, demo if left else "")
        return replace(self, demonstrations=whole).with_scene(scene)

    # --- the whole set ---------------------------------------------------------------------

    def with_gripper(self, gripper: Gripper) -> Document:
        """The same with another gripper, which holds everything alike."""
        if not self.demonstrations:
            return replace(self, gripper=gripper)
        return self._of(regripped_demos(self._set(), gripper))

    def with_demos(self, demos: DemoSet) -> Document:
        """The demonstrations of another set besides; its gripper where there were none before."""
        if not self.demonstrations:
            return self._of(demos)
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


def free_name(name: str, taken: set[str]) -> str:
    """The name, or the next free one: `cup`, `cup_2`."""
    number = 1
    while (found := name if number == 1 else f"{name}_{number}") in taken:
        number += 1
    return found


def scene_name(name: str) -> str:
    """A name for a scene, and for its file, from one that somebody else may have chosen."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:60] or "scene"

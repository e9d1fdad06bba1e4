"""Everything that training makes up, in the order in which it is applied to an example."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from handful.clouds import NeighbourIndex, PointCloud
from handful.demos import Step
from handful.errors import DemoError, OptionError
from handful.learning.variation._augmentation import Augmentation
from handful.learning.variation._clutter import Clutter
from handful.learning.variation._composition import Composition
from handful.learning.variation._context import ContextDropout
from handful.learning.variation._example import Example
from handful.learning.variation._sensor import Sensor
from handful.learning.variation._visibility import some_sides
from handful.learning.variation._warp import Warp, warped_step

_TOUCHING = 50
"""Points of the held object that come nearest to the scene: where the task happens."""
_NEAR = 0.03
"""Metres: if as many points are nearer than this to the scene, the others need not be measured."""


@dataclass(frozen=True)
class Variation:
    """How training scenes differ from the demonstrated ones.

    Attributes:
        augmentation: Of poses, points and colours.
        warp: Of the shapes of scene and held object together.
        held_warp: Of what is held besides.
        composition: Of object and scene, where they can be told apart.
        context: Dropout of what stands around the target.
        held_context: Dropout of what is held, about where it touches the scene.
        one_sided: Probability that only some sides of what is held are shown.
        clutter: Shapes that stand around.
        sensor: Cameras and their noise.
    """

    augmentation: Augmentation = field(default_factory=Augmentation)
    warp: Warp = field(default_factory=Warp)
    held_warp: Warp = field(default_factory=Warp)
    composition: Composition = field(default_factory=Composition)
    context: ContextDropout = field(default_factory=ContextDropout)
    held_context: ContextDropout = field(default_factory=ContextDropout)
    one_sided: float = 0.0
    clutter: Clutter = field(default_factory=Clutter)
    sensor: Sensor = field(default_factory=Sensor)

    def __post_init__(self) -> None:
        if not 0 <= self.one_sided <= 1:
            raise OptionError(f"one_sided is {self.one_sided}: need a probability.")

    def apply(self, example: Example, rng: np.random.Generator) -> Step:
        """A varied step; the same state of the generator gives the same."""
        return self.apply_with_thing(example, rng)[0]

    def apply_with_thing(
        self, example: Example, rng: np.random.Generator
    ) -> tuple[Step, PointCloud | None]:
        """A varied step, and where it was composed, the whole object that is to be taken."""
        if self.composition.wanted(example, rng):
            return self._composed(example, rng)
        up, contact = example.up, example.contact[:3, 3]
        changed = self.augmentation.apply(self._warped(example, rng), rng)
        focus = focus_of(changed, contact)
        scene = self.context.apply(changed.scene, focus, rng)
        scene = self.clutter.apply(scene, focus, rng)
        eyes = self.sensor.cameras(focus, up, rng)
        if rng.uniform() < self.sensor.partial:
            scene = self.sensor.seen(scene, eyes, focus)
        scene = self.sensor.disturbed(scene, eyes, rng)
        return changed.changed(scene=scene, grasp=self._held(changed, focus, rng)), None

    def _composed(
        self, example: Example, rng: np.random.Generator
    ) -> tuple[Step, PointCloud | None]:
        """A scene put together from the parts of the demonstrated one."""
        thing, step, contact = example.thing, example.step, example.contact
        assert thing is not None
        at = step.targets[0] @ contact
        middle = thing.points.mean(axis=0).astype(np.float64)
        warp = self.warp.draw(at[:3, 3], middle, example.up, at[:3, 0], rng)
        targets = warp.poses(step.targets, contact[:3, 3])
        bent = replace(example, step=step.changed(targets=targets), thing=warp.cloud(thing))
        composed = self.composition.apply(bent, rng)
        changed = self.augmentation.apply(composed.step, rng)
        focus = focus_of(changed, contact[:3, 3])
        scene = self.context.apply(changed.scene, focus, rng)
        scene = self.clutter.apply(scene, focus, rng, floor=False)
        eyes = self.sensor.cameras(focus, example.up, rng)
        scene = self.sensor.seen(scene, eyes, focus)
        return changed.changed(scene=self.sensor.disturbed(scene, eyes, rng)), composed.thing

    def _warped(self, example: Example, rng: np.random.Generator) -> Step:
        """The scene as it was demonstrated, with other shapes."""
        step, up, contact = example.step, example.up, example.contact
        focus = focus_of(step, contact[:3, 3])
        along = (step.targets[0] @ contact)[:3, 0]
        warp = self.warp.draw(focus, focus, up, along, rng)
        if step.grasp is None:
            return warped_step(step, warp)
        middle = step.grasp.transformed(step.targets[0]).points.mean(axis=0).astype(np.float64)
        return warped_step(step, warp, self.held_warp.draw(focus, middle, up, along, rng))

    def _held(
        self, step: Step, focus: Float[np.ndarray, "3"], rng: np.random.Generator
    ) -> PointCloud | None:
        """What is held, as some cameras see it."""
        held = step.grasp
        if held is None:
            return None
        if self.one_sided > 0 and rng.uniform() < self.one_sided:
            held = some_sides(held, rng)
        T_scene_grasp = step.targets[0]
        at = T_scene_grasp[:3, :3].T @ (focus - T_scene_grasp[:3, 3])
        held = self.held_context.apply(held, at, rng)
        return self.sensor.disturbed(held, self.sensor.cameras(at, None, rng), rng)


def focus_of(step: Step, contact: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3"]:
    """Where the task happens at the first target, scene frame.

    For an empty gripper this is the contact point, for a full one the place where what is held
    comes nearest to the scene.
    """
    target = step.targets[0]
    if not step.action.holding:
        return target[:3, :3] @ contact + target[:3, 3]
    if step.grasp is None:
        raise DemoError(f"step {step.name!r} has no grasp cloud: record what the gripper holds.")
    moved = step.grasp.transformed(target).points
    index = NeighbourIndex(step.scene.points)
    distance = index.distance(moved, at_most=_NEAR)
    if np.isfinite(distance).sum() < _TOUCHING:
        distance = index.distance(moved)
    return moved[np.argsort(distance)[:_TOUCHING]].mean(axis=0).astype(np.float64)

"""Everything that training makes up, in the order in which it is applied to a step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from handful.clouds import NeighbourIndex
from handful.demos import Step
from handful.errors import DemoError, OptionError
from handful.learning.variation._augmentation import Augmentation
from handful.learning.variation._clutter import Clutter
from handful.learning.variation._context import ContextDropout
from handful.learning.variation._stretch import Stretch
from handful.learning.variation._visibility import some_sides

_TOUCHING = 50
"""Points of the held object that come nearest to the scene: where the task happens."""
_NEAR = 0.03
"""Metres: if as many points are nearer than this to the scene, the others need not be measured."""


@dataclass(frozen=True)
class Variation:
    """How training scenes differ from the demonstrated ones.

    Attributes:
        augmentation: Of poses, points and colours.
        stretch: Of the shapes of scene and held object.
        context: Dropout of what stands around the target.
        held_context: Dropout of what is held, about where it touches the scene.
        one_sided: Probability that only some sides of what is held are shown.
        clutter: Shapes that stand around.
    """

    augmentation: Augmentation = field(default_factory=Augmentation)
    stretch: Stretch = field(default_factory=Stretch)
    context: ContextDropout = field(default_factory=ContextDropout)
    held_context: ContextDropout = field(default_factory=ContextDropout)
    one_sided: float = 0.0
    clutter: Clutter = field(default_factory=Clutter)

    def __post_init__(self) -> None:
        if not 0 <= self.one_sided <= 1:
            raise OptionError(f"one_sided is {self.one_sided}: need a probability.")

    def apply(self, step: Step, contact: Float[np.ndarray, "3"], rng: np.random.Generator) -> Step:
        """A varied step.

        Args:
            step: The demonstrated step.
            contact: The gripper's contact point in the gripper frame, metres.
            rng: Source of randomness.
        """
        changed = self.augmentation.apply(step, rng)
        focus = focus_of(changed, contact)
        changed = self.stretch.apply(changed, focus, rng)
        scene = self.context.apply(changed.scene, focus, rng)
        held = changed.grasp
        if held is not None:
            if self.one_sided > 0 and rng.uniform() < self.one_sided:
                held = some_sides(held, rng)
            T_scene_grasp = changed.targets[0]
            at = T_scene_grasp[:3, :3].T @ (focus - T_scene_grasp[:3, 3])
            held = self.held_context.apply(held, at, rng)
        return changed.changed(scene=self.clutter.apply(scene, focus, rng), grasp=held)


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

"""The predictor: the best pixels and yaws of a scene, in order."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image

from handful._checks import MAX_POSES, whole_number
from handful.baselines.transporter._image import Points
from handful.baselines.transporter._model import Scores, TransporterModel
from handful.baselines.transporter._planar import PlanarPose, yaw_of
from handful.clouds import CloudLike, as_cloud
from handful.demos import Gripper, TaskStep
from handful.errors import OptionError
from handful.policy import RankedPoses, without_hand
from handful.render import tile

PICTURE = 480
"""Width of each picture, pixels."""


@dataclass(eq=False)
class _LastAnswer:
    """The scores of the clouds that were asked about last; robots ask again about the same ones."""

    scene: object = None
    grasp: object = None
    scores: Scores | None = None


@dataclass(frozen=True, eq=False)
class TransporterPredictor:
    """A trained Transporter Network of one step.

    The method knows no confidence: it goes where its heat map is highest, whatever that is. All
    poses have confidence 1.

    Attributes:
        step: Name and action of the step.
        model: The network.
        trained_gripper: The gripper of the demonstrations.
        other_gripper: Another gripper that is used instead, or None.
    """

    step: TaskStep
    model: TransporterModel
    trained_gripper: Gripper
    other_gripper: Gripper | None = None
    _last: _LastAnswer = field(default_factory=_LastAnswer, repr=False)

    @property
    def gripper(self) -> Gripper:
        """The gripper that is used."""
        return self.trained_gripper if self.other_gripper is None else self.other_gripper

    def for_gripper(self, gripper: Gripper) -> TransporterPredictor:
        """The same predictor for another gripper: its contact frame goes where the old one would.

        A picture of what is held shows another hand then.
        """
        return replace(self, other_gripper=gripper, _last=_LastAnswer())

    def sample(
        self, scene: CloudLike, grasp: CloudLike | None = None, n: int = 100, seed: int = 0
    ) -> RankedPoses:
        """The best `n` pixels and yaws, in order.

        Args:
            scene: Scene cloud, metres.
            grasp: What the gripper holds, in the gripper frame.
            n: How many poses at most.
            seed: Not looked at: nothing is drawn.
        """
        start = time.perf_counter()
        whole_number("n", n, 1, MAX_POSES)
        scores = self.scores(scene, grasp)
        logits = scores.logits.masked_fill(~scores.valid, -torch.inf).flatten()
        energies = torch.logsumexp(logits, 0) - logits
        best = energies.argsort(stable=True)[: min(n, int(scores.valid.sum()))]
        poses = np.stack([self._pose(scores, int(number)) for number in best])
        return RankedPoses(
            poses,
            energies[best].double().numpy(),
            np.ones(len(best)),
            time.perf_counter() - start,
            self.gripper,
        )

    def scores(self, scene: CloudLike, grasp: CloudLike | None = None) -> Scores:
        """The scores of all yaws and pixels.

        Raises:
            OptionError: There is a grasp cloud and should be none, or the other way round.
        """
        last = self._last
        if last.scores is not None and last.scene is scene and last.grasp is grasp:
            return last.scores
        if (grasp is not None) != self.model.config.holding:
            raise OptionError(
                f"the gripper {'is empty' if grasp is not None else 'holds something'} in the step "
                f"{self.step.name!r}: give {'no' if grasp is not None else 'a'} grasp cloud."
            )
        held = None
        if grasp is not None:
            cloud = without_hand(as_cloud(grasp, "grasp"), self.gripper)
            held = Points.of(cloud).moved(self.model.config.poses.held(self.gripper))
        with torch.no_grad():
            scores = self.model(Points.of(as_cloud(scene, "scene")), held)
        last.scene, last.grasp, last.scores = scene, grasp, scores
        return scores

    def _pose(self, scores: Scores, number: int) -> Float[np.ndarray, "4 4"]:
        """The pose of a yaw and pixel, by their number in the flattened scores."""
        yaw, row, column = np.unravel_index(number, tuple(scores.logits.shape))
        x, y = scores.positions[yaw, row, column].tolist()
        z, roll, pitch = scores.rest[int(yaw), :, int(row), int(column)].tolist()
        angle = yaw_of(int(yaw), self.model.config.yaws)
        return self.model.config.poses.pose(PlanarPose(x, y, angle, z, roll, pitch), self.gripper)

    def picture(self, scene: CloudLike, grasp: CloudLike | None = None) -> Image.Image:
        """The image that the model sees, and its heat map: the best yaw of every place."""
        config = self.model.config
        scores = self.scores(scene, grasp)
        seen = config.image.draw(Points.of(as_cloud(scene, "scene")))
        heat = self._heat(scores)
        colors = seen[:3].transpose(1, 2, 0)
        marked = 0.5 * colors + 0.5 * np.stack([heat, heat**2, 0.2 * (1.0 - heat)], axis=-1)
        panels = [_panel(colors), _panel(marked)]
        titles = ["from above", f"heat map of {self.step.name}"]
        if config.holding and grasp is not None:
            held = Points.of(without_hand(as_cloud(grasp, "grasp"), self.gripper))
            image = config.kernel.draw(held.moved(config.poses.held(self.gripper)))
            panels.append(_panel(image[:3].transpose(1, 2, 0)))
            titles.append("what is held")
        return tile(panels, len(panels), titles)

    def _heat(self, scores: Scores) -> Float[np.ndarray, "pixels pixels"]:
        """Log probability of the best yaw of every pixel of the image, from 0 (low) to 1."""
        frame = self.model.config.image
        heat = np.full((frame.pixels, frame.pixels), -np.inf)
        logits = scores.logits.masked_fill(~scores.valid, -torch.inf)
        for values, plane, valid in zip(logits, scores.positions, scores.valid, strict=True):
            inside = valid.numpy()
            at = np.floor((plane[inside] - np.asarray(frame.low)) / frame.size).astype(int)
            np.maximum.at(heat, (at[:, 1], at[:, 0]), values.double().numpy()[inside])
        best = heat.max()
        return np.clip(1.0 + (heat - best) / 10.0, 0.0, 1.0)


def _panel(image: Float[np.ndarray, "h w 3"]) -> Image.Image:
    """A picture with y upwards, large enough to be looked at."""
    data = (np.clip(image[::-1], 0.0, 1.0) * 255.0).astype(np.uint8)
    return Image.fromarray(data).resize((PICTURE, PICTURE), Image.Resampling.NEAREST)

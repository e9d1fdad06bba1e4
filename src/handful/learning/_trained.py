"""A trained model as people use it: clouds in, ranked poses with energy and confidence out."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from handful._strict_json import Fields, read_json
from handful.clouds import Box, PointCloud, principal_frame, voxel_filter
from handful.demos import Gripper, Step
from handful.errors import FileFormatError, OptionError
from handful.learning._confidence import SURE_ENOUGH, Confidence
from handful.models import (
    MatchEnergy,
    Model,
    PickModel,
    QueryPoints,
    config_from_json,
    config_to_json,
    save_model,
)
from handful.models import load_model as load_network
from handful.sampling import ExhaustiveSearch, Sampler, near_points

BEYOND_PALM = 0.5
"""What is nearer to the gripper's origin than this share of the finger tips' distance is hand."""

_RATED_AT_ONCE = 1024

USE = "use.json"
FORMAT = "handful-trained-model"
VERSION = 1


@dataclass(frozen=True)
class SearchConfig:
    """How finely a trained model looks for poses.

    Attributes:
        spacing: Distance of neighbouring positions of the lattice, metres.
        rotations: Number of rotations of the lattice.
        starts: How many of its minima are refined, at least.
        refine_steps: Most steps of refinement.
        reach: Query points farther than this from every point of the scene are not tried, metres.
        scene_voxel: Scene clouds are thinned to this first, as in training; metres.
        grasp_voxel: The same for grasp clouds.
    """

    spacing: float = 0.02
    rotations: int = 1000
    starts: int = 48
    refine_steps: int = 8
    reach: float = 0.03
    scene_voxel: float = 0.006
    grasp_voxel: float = 0.005

    def sampler(self, energy: MatchEnergy) -> ExhaustiveSearch:
        """The search around the points of an energy's scene."""
        return ExhaustiveSearch(
            spacing=self.spacing,
            rotations=self.rotations,
            starts=self.starts,
            refine_steps=self.refine_steps,
            keep=near_points(_scene_points(energy), self.reach),
        )

    def prepared(
        self, scene: PointCloud, grasp: PointCloud | None = None, own_frames: bool = True
    ) -> PreparedClouds:
        """Clouds as the model sees them.

        Voxels and lattices have axes. Every cloud is brought to axes of its own first, so that the
        answer is the same wherever the scene is and however the object is held.

        Args:
            scene: Scene cloud, metres.
            grasp: What the gripper holds, in the gripper frame, or None.
            own_frames: False leaves the clouds where they are, for pictures.
        """
        from_scene = principal_frame(scene) if own_frames else np.eye(4)
        from_grasp = np.eye(4)
        if grasp is not None:
            from_grasp = principal_frame(grasp) if own_frames else from_grasp
            grasp = voxel_filter(grasp.transformed(from_grasp), self.grasp_voxel)
        scene = voxel_filter(scene.transformed(from_scene), self.scene_voxel)
        return PreparedClouds(scene, grasp, from_scene, from_grasp)

    def prepared_step(self, step: Step) -> Step:
        """A demonstration's step as the model sees it."""
        clouds = self.prepared(step.scene, step.grasp)
        return Step(step.name, clouds.scene, clouds.between_frames(step.targets), clouds.grasp)


@dataclass(frozen=True, eq=False)
class PreparedClouds:
    """Clouds in frames of their own.

    Attributes:
        scene: Thinned, in its frame.
        grasp: The same, or None.
        from_scene: T_frame_scene [4, 4].
        from_grasp: T_frame_gripper [4, 4] of the grasp cloud.
    """

    scene: PointCloud
    grasp: PointCloud | None
    from_scene: Float[np.ndarray, "4 4"]
    from_grasp: Float[np.ndarray, "4 4"]

    def poses(self, found: Float[np.ndarray, "poses 4 4"]) -> Float[np.ndarray, "poses 4 4"]:
        """Gripper poses in the scene from poses of one frame in the other."""
        return np.linalg.inv(self.from_scene) @ found @ self.from_grasp

    def between_frames(
        self, poses: Float[np.ndarray, "poses 4 4"]
    ) -> Float[np.ndarray, "poses 4 4"]:
        """Poses of one frame in the other from gripper poses in the scene."""
        return self.from_scene @ poses @ np.linalg.inv(self.from_grasp)


@dataclass(frozen=True, eq=False)
class RankedPoses:
    """Poses that a model proposes, the best first.

    Attributes:
        T_scene_gripper: Gripper poses [poses, 4, 4].
        energy: E(T) of each; lower is better.
        confidence: Of each, 0 to 1, that the target is there and the pose is on it.
        seconds: Wall-clock time that it took.
    """

    T_scene_gripper: Float[np.ndarray, "poses 4 4"]
    energy: Float[np.ndarray, "poses"]
    confidence: Float[np.ndarray, "poses"]
    seconds: float

    def __len__(self) -> int:
        return len(self.energy)

    @property
    def found(self) -> bool:
        """Whether the best pose is one to execute; if not, there is probably no target."""
        return len(self) > 0 and bool(self.confidence[0] >= SURE_ENOUGH)


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A pick or place model with all that using it needs.

    Attributes:
        network: The model proper.
        gripper: Of the demonstrations, for pictures.
        search: How poses are looked for.
        confidence: From energies.
    """

    network: Model
    gripper: Gripper
    search: SearchConfig
    confidence: Confidence

    @property
    def kind(self) -> str:
        """`pick` or `place`."""
        return self.network.kind

    def energy(self, clouds: PreparedClouds) -> MatchEnergy:
        """The energy of poses between the clouds' frames; they are encoded once, here."""
        with torch.no_grad():
            if isinstance(self.network, PickModel):
                if clouds.grasp is not None:
                    raise OptionError("a pick model takes a scene and no grasp cloud.")
                return self.network(clouds.scene)
            if clouds.grasp is None:
                raise OptionError("a place model needs a grasp cloud, too: sample(scene, grasp).")
            queries = self._held(self.network.queries(clouds.grasp), clouds)
            key = self.network.key_field(clouds.scene)
            return self.network.energy(key, queries.strongest(self.network.config.strongest))

    def _held(self, queries: QueryPoints, clouds: PreparedClouds) -> QueryPoints:
        """Query points on what is held, without those on the hand, if there are any others.

        Grasp clouds show the hand, too, and to a network that has seen few bottles its flange looks
        like the bottom of one. But where the hand is, is known.
        """
        to_gripper = torch.from_numpy(np.linalg.inv(clouds.from_grasp)).to(queries.positions)
        height = queries.positions @ to_gripper[2, :3] + to_gripper[2, 3]
        held = height >= BEYOND_PALM * self.gripper.tip
        return queries.selected(held) if bool(held.any()) else queries

    def sample(
        self,
        scene: PointCloud,
        grasp: PointCloud | None = None,
        n: int = 100,
        seed: int = 0,
        sampler: Sampler | None = None,
    ) -> RankedPoses:
        """The distinct best poses in a scene, at most n.

        Args:
            scene: Scene cloud, metres.
            grasp: What the gripper holds, in the gripper frame; only the place model takes it.
            n: How many poses at most.
            seed: The same seed gives the same poses.
            sampler: Instead of the exhaustive search, for example `PaperSchedule()`.
        """
        start = time.perf_counter()
        clouds = self.search.prepared(scene, grasp)
        energy = self.energy(clouds)
        found = (sampler or self.search.sampler(energy)).sample(
            energy, workspace(energy, self.search.reach), n, torch.Generator().manual_seed(seed)
        )
        poses = clouds.poses(found.poses.double().numpy())
        return self._ranked(poses, found.energies, energy, start)

    def rate(
        self,
        poses: Float[np.ndarray, "poses 4 4"],
        scene: PointCloud,
        grasp: PointCloud | None = None,
    ) -> RankedPoses:
        """Poses from elsewhere with their energies and confidences, the best first.

        Args:
            poses: T_scene_gripper.
            scene: Scene cloud, metres.
            grasp: As for `sample`.
        """
        start = time.perf_counter()
        clouds = self.search.prepared(scene, grasp)
        energy = self.energy(clouds)
        framed = torch.from_numpy(clouds.between_frames(poses)).to(energy.queries.positions)
        with torch.no_grad():
            energies = torch.cat([energy(some) for some in framed.split(_RATED_AT_ONCE)])
        order = energies.argsort(stable=True)
        return self._ranked(poses[order.numpy()], energies[order], energy, start)

    def _ranked(
        self,
        poses: Float[np.ndarray, "poses 4 4"],
        energies: Float[Tensor, "poses"],
        energy: MatchEnergy,
        start: float,
    ) -> RankedPoses:
        """Sorted poses with their confidences."""
        values = energies.double().numpy()
        sure = self.confidence.of(evidence(energy, values))
        return RankedPoses(poses, values, sure, time.perf_counter() - start)

    def save(self, folder: str | Path) -> Path:
        """Write the model to a folder, which is replaced whole or not at all."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "gripper": config_to_json(self.gripper),
            "search": config_to_json(self.search),
            "confidence": config_to_json(self.confidence),
        }
        return save_model(self.network, folder, {USE: json.dumps(content, indent=2) + "\n"})


def load_model(folder: str | Path) -> TrainedModel:
    """Read what `TrainedModel.save` wrote, ready for inference."""
    network = load_network(folder)
    path = Path(folder) / USE
    if not path.is_file():
        raise FileFormatError(f"{path}: is missing: nobody trained the model in this folder.")
    fields = Fields(read_json(path), str(path), FileFormatError)
    if (fields.text("format"), fields.integer("version")) != (FORMAT, VERSION):
        raise FileFormatError(f"{path}: need format {FORMAT!r}, version {VERSION}.")

    def part(kind: Any, name: str) -> Any:
        return config_from_json(kind, fields.any(name), f"{path}: {name}")

    model = TrainedModel(
        network,
        part(Gripper, "gripper"),
        part(SearchConfig, "search"),
        part(Confidence, "confidence"),
    )
    fields.done()
    return model


def workspace(energy: MatchEnergy, margin: float) -> Box:
    """Where the middle of an energy's query points may go: so that the strongest may go anywhere.

    Samplers bound the weighted mean of the query points. One weak point on the hand, far from the
    others, would otherwise keep the strong ones from the table.
    """
    weights, positions = energy.queries.weights.detach(), energy.queries.positions.detach()
    middle = (weights @ positions) / weights.sum()
    spread = float((positions[weights.argmax()] - middle).norm())
    return Box.around(_scene_points(energy).numpy(), margin + spread)


def evidence(
    energy: MatchEnergy, energies: Float[np.ndarray, "poses"]
) -> Float[np.ndarray, "poses"]:
    """Energies in units of what the query descriptors would cost against nothing at all.

    Weights and descriptors differ from one held object to the next; only such shares can be
    compared between scenes.
    """
    queries = energy.queries
    with torch.no_grad():
        nothing = (energy.mismatch(queries.descriptors) * queries.weights).sum()
    return energies / max(float(nothing) / energy.temperature, 1e-12)


def _scene_points(energy: MatchEnergy) -> Float[Tensor, "points 3"]:
    points: Tensor = energy.field.encoded.points  # type: ignore[attr-defined]
    return points

"""A scene that was looked at: prepared once, encoded once, sampled and rated as often as wanted."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from handful._checks import MAX_DERIVED_SEED, MAX_POSES, check_seed, whole_number
from handful.clouds import Box, PointCloud
from handful.errors import EmptyCloudError, OptionError
from handful.geometry import poses_array
from handful.models import EdfModel, Field, MatchEnergy, ThinnedCloud
from handful.policy._evidence import CONSIDERED, Judged
from handful.policy._preparation import PreparedClouds
from handful.policy._ranked import RankedPoses
from handful.policy._tiles import (
    FARTHEST,
    TILE_POINTS,
    Tile,
    check_workspace,
    grown,
    owners,
    tiles_of,
)
from handful.sampling import ExhaustiveSearch, NothingToSearch, Sampler

if TYPE_CHECKING:
    from handful.policy._predictor import Predictor

RATED_AT_ONCE = 1024
ENCODED_AT_ONCE = 2
"""Tiles whose encodings are kept: each takes up to 100 MB."""
_FAR_AWAY = 1e3  # Metres. There the key field has its value of empty space.


class SceneView:
    """What a predictor sees; made by `Predictor.look`.

    A scene of at most `tile_points` points, as the encoder thins them, is encoded as a whole and
    its encoding is kept. A larger one is cut into overlapping tiles (`tiles_of`). Each tile is
    encoded when it is searched or rated, and its energies are those of the whole scene: its margin
    holds every point that the key field at a query point can depend on. Memory does not grow with
    the scene then, and time grows with the occupied space.

    Args:
        predictor: Whose model and search are used.
        scene: Scene cloud, metres.
        grasp: What the gripper holds, in the gripper frame, or None.
        workspace: Where the contact point may go, scene frame. What lies too far from it to matter
            is left out before anything is computed. None for everywhere.
        tile_points: Most points that are encoded at once.

    Raises:
        EmptyCloudError: Nothing of the scene is near the workspace.
        OptionError: The clouds do not fit the model, or a tile of the scene is too dense.
    """

    def __init__(
        self,
        predictor: Predictor,
        scene: PointCloud,
        grasp: PointCloud | None = None,
        workspace: Box | None = None,
        tile_points: int = TILE_POINTS,
    ) -> None:
        self._predictor, self._workspace = predictor, workspace
        self._verifier = predictor.model.verifier
        preparation, gripper = predictor.preparation, predictor.gripper
        held, T_frame_gripper = preparation.held(grasp, gripper)
        with torch.no_grad():
            self._queries = predictor.model.query_points(held)
        T_frame_contact = T_frame_gripper @ predictor.T_trained_gripper @ gripper.T_gripper_contact
        self._contact = T_frame_contact[:3, 3]
        if workspace is not None:
            check_workspace(workspace)
            around = self.margin + predictor.model.config.encoder.shape_radius
            scene = _near(scene, workspace, self._from_contact + around)
        clouds = preparation.clouds(scene, None, gripper)
        self._clouds = PreparedClouds(clouds.scene, held, clouds.T_frame_scene, T_frame_gripper)
        self._points = predictor.model.key_field.encoder.thin(clouds.scene)
        self._domain = predictor.search.domain(self._points.points, self._queries)
        if len(self._points) <= tile_points:
            self.tiles = [Tile(self._domain, np.arange(len(self._points)))]
        else:
            self.tiles = tiles_of(self._points.points, self._domain, self.margin, tile_points)
        self._encoded: OrderedDict[int, MatchEnergy] = OrderedDict()
        self.encodings = 0

    @property
    def clouds(self) -> PreparedClouds:
        """The clouds as the model sees them."""
        return self._clouds

    @property
    def points(self) -> int:
        """How many points there are to encode, in all tiles together and without their margins."""
        return len(self._points)

    @property
    def margin(self) -> float:
        """How far from a tile's core points matter to it, metres."""
        encoder = self._predictor.model.config.encoder
        return self._overlap + self._sight + encoder.receptive_radius

    # --- asking ----------------------------------------------------------------------------

    def sample(self, n: int = 100, seed: int = 0, sampler: Sampler | None = None) -> RankedPoses:
        """The distinct best poses, at most n; see `Predictor.sample`."""
        start = time.perf_counter()
        whole_number("n", n, 1, MAX_POSES)
        generator = torch.Generator().manual_seed(check_seed(seed, MAX_DERIVED_SEED))
        count = n if self._verifier is None else max(n, CONSIDERED)
        if len(self.tiles) == 1:
            energy = self.energy(0)
            search = sampler or self._search(energy)
            found = search.sample(energy, self._box(self.tiles[0]), count, generator)
            judged = self._judged(energy, found.poses, found.energies)
        elif sampler is None:
            judged = self._sampled_by_tile(count, generator)
        else:
            raise OptionError(
                f"the scene has {len(self._points)} points and is searched in {len(self.tiles)} "
                f"tiles, which {type(sampler).__name__} cannot do: crop the scene, or leave "
                "`sampler` out."
            )
        if self._workspace is not None:
            judged = judged.selected(self._in_workspace(judged.poses))
        return self._ranked(judged.sorted().selected(torch.arange(len(judged))[:n]), start)

    def rate(self, T_scene_gripper: Float[np.ndarray, "poses 4 4"]) -> RankedPoses:
        """Poses from elsewhere with their energies, the best first; see `Predictor.rate`."""
        start = time.perf_counter()
        T_scene_gripper = poses_array(T_scene_gripper, "T_scene_gripper")
        far = float(np.abs(T_scene_gripper[:, :3, 3]).max(initial=0.0))
        if far > FARTHEST:
            raise OptionError(
                f"T_scene_gripper is {far:.4g} m from the origin of its frame: need metres; "
                "multiply positions in millimetres by 0.001."
            )
        judged = self._rated(T_scene_gripper)
        order = judged.energies.argsort(stable=True)
        ranked = self._ranked(judged.selected(order), start)
        return replace(ranked, T_scene_gripper=T_scene_gripper[order.numpy()])

    def energies_at(
        self, T_scene_gripper: Float[np.ndarray, "poses 4 4"]
    ) -> Float[np.ndarray, "poses"]:
        """Energies of poses from elsewhere, in their order."""
        judged = self._rated(poses_array(T_scene_gripper, "T_scene_gripper"))
        return judged.energies.double().numpy()

    def _rated(self, T_scene_gripper: Float[np.ndarray, "poses 4 4"]) -> Judged:
        """Poses between the frames of the prepared clouds, in their order."""
        T_gripper_trained = np.linalg.inv(self._predictor.T_trained_gripper)
        framed = self._clouds.between_frames(T_scene_gripper @ T_gripper_trained)
        return self.judge(torch.from_numpy(framed).to(self._queries.positions))

    def judge(self, poses: Float[Tensor, "poses 4 4"]) -> Judged:
        """Poses between the frames of the prepared clouds, judged, in their order."""
        energies, evidence = poses.new_zeros(len(poses)), poses.new_zeros(len(poses))
        for number, some in self._by_tile(poses, np.full(len(poses), -1)):
            asked = poses[some].clone()
            if number < 0:  # Nothing can be seen from there.
                asked[:, 0, 3] += _FAR_AWAY
            energy = self.energy(max(number, 0))
            with torch.no_grad():
                values = [energy(part) for part in asked.split(RATED_AT_ONCE)]
            judged = self._judged(energy, asked, torch.cat(values))
            energies[some], evidence[some] = judged.energies, judged.evidence
        return Judged(poses, energies, evidence)

    def _judged(
        self,
        energy: MatchEnergy,
        poses: Float[Tensor, "poses 4 4"],
        energies: Float[Tensor, "poses"],
    ) -> Judged:
        """Poses of known energies, judged in a tile."""
        return Judged.of(energy, self._verifier, poses, energies)

    def energy(self, number: int) -> MatchEnergy:
        """The energy of poses in a tile, which is encoded unless it was among the last."""
        if number not in self._encoded:
            model = self._predictor.model
            cloud = self._points
            if len(self.tiles) > 1:
                cloud = cloud.selected(self.tiles[number].points)
            while len(self._encoded) >= ENCODED_AT_ONCE:
                self._encoded.popitem(last=False)
            self._encoded[number] = model.energy(encoded_field(model, cloud), self._queries)
            self.encodings += 1
        self._encoded.move_to_end(number)
        return self._encoded[number]

    # --- tiles -----------------------------------------------------------------------------

    def _sampled_by_tile(self, n: int, generator: torch.Generator) -> Judged:
        """The running best of the tiles' lattices, refined where they are."""
        poses, energies = self._queries.positions.new_zeros(0, 4, 4), torch.zeros(0)
        home: Int[np.ndarray, "poses"] = np.zeros(0, dtype=np.int64)
        rules = self._predictor.search.rules()
        for number, tile in enumerate(self.tiles):
            if not self._near_any(tile):
                continue
            energy = self.energy(number)
            try:
                some = self._search(energy).candidates(energy, self._box(tile), n, generator)
            except NothingToSearch:
                continue
            poses, energies = torch.cat([poses, some[0]]), torch.cat([energies, some[1]])
            home = np.append(home, np.full(len(some[0]), number))
            best = rules.distinct_starts(self._centred(poses), energies, n)
            poses, energies, home = poses[best], energies[best], home[best.numpy()]
        parts = [Judged(poses[:0], energies[:0], energies[:0])]
        for number, which in self._by_tile(poses, home):
            energy = self.energy(number)
            box = self._box(self.tiles[number])
            some = self._search(energy).refined(energy, box, poses[which], n)
            parts.append(self._judged(energy, *some))
        judged = Judged.joined(parts)
        return judged.selected(rules.distinct(self._centred(judged.poses), judged.energies, n))

    def _by_tile(
        self, poses: Float[Tensor, "poses 4 4"], otherwise: Int[np.ndarray, "poses"]
    ) -> list[tuple[int, Int[Tensor, "some"]]]:
        """Poses by the tile that their query points' center is in."""
        if len(self.tiles) == 1:
            return [(0, torch.arange(len(poses)))] if len(poses) else []
        center = self._centred(poses)[:, :3, 3].double().numpy()
        owner = owners(self.tiles, center, self._domain)
        owner = np.where(owner < 0, otherwise, owner)
        return [
            (int(number), torch.from_numpy(np.flatnonzero(owner == number)))
            for number in np.unique(owner)
        ]

    def _box(self, tile: Tile) -> Box:
        """Where the query points' center may go in a tile: its core and some of the others'."""
        if len(self.tiles) == 1:
            return self._domain
        box = grown(tile.core, self._overlap)
        low = np.maximum(box.lower, self._domain.lower).tolist()
        high = np.minimum(box.upper, self._domain.upper).tolist()
        return Box((low[0], low[1], low[2]), (high[0], high[1], high[2]))

    def _near_any(self, tile: Tile) -> bool:
        """Whether any point is so near that the lattice of a tile can hold a cell."""
        search = self._predictor.search
        margin = self._spread + search.reach + search.spacing
        points = self._points.points[tile.points]
        return bool(grown(self._box(tile), margin).contains(points).any())

    def _search(self, energy: MatchEnergy) -> ExhaustiveSearch:
        search = self._predictor.search.sampler(energy)
        if self._workspace is None:
            return search
        mask = _both(search.mask, self._query_in_workspace)
        return replace(search, mask=mask, allowed=self._in_workspace)

    # --- geometry --------------------------------------------------------------------------

    @property
    def _overlap(self) -> float:
        """By how much the lattices of neighbouring tiles overlap, metres."""
        search = self._predictor.search
        return max(search.reach, 2.0 * search.spacing)

    @property
    def _spread(self) -> float:
        """Distance of the farthest query point from their center, metres."""
        positions = self._queries.useful().positions.detach()
        return float((positions - self._queries.center).norm(dim=-1).max())

    @property
    def _sight(self) -> float:
        """Distance of the farthest place at a pose where the key field is asked, metres."""
        if self._verifier is None:
            return self._spread
        away = (self._verifier.probes - self._queries.center).norm(dim=-1)
        return max(self._spread, float(away.max()))

    @property
    def _from_contact(self) -> float:
        """Distance of the farthest query point from the contact point, metres."""
        positions = self._queries.useful().positions.detach().double().numpy()
        return float(np.linalg.norm(positions - self._contact, axis=1).max())

    def _centred(self, poses: Float[Tensor, "poses 4 4"]) -> Float[Tensor, "poses 4 4"]:
        """Poses whose translation is where the query points' center is."""
        moved = poses.clone()
        moved[:, :3, 3] += poses[:, :3, :3] @ self._queries.center
        return moved

    def _in_workspace(self, poses: Float[Tensor, "poses 4 4"]) -> Tensor:
        """Whether the contact point of each pose is in the workspace."""
        assert self._workspace is not None
        framed = poses.double().numpy()
        contact = framed[:, :3, :3] @ self._contact + framed[:, :3, 3]
        return torch.from_numpy(self._workspace.contains(self._in_scene(contact)))

    def _query_in_workspace(self, positions: Float[Tensor, "positions 3"]) -> Tensor:
        """Whether a query point at each position can belong to a contact in the workspace."""
        assert self._workspace is not None
        box = grown(self._workspace, self._from_contact + self._predictor.search.spacing)
        return torch.from_numpy(box.contains(self._in_scene(positions.detach().double().numpy())))

    def _in_scene(
        self, framed: Float[np.ndarray, "positions 3"]
    ) -> Float[np.ndarray, "positions 3"]:
        T_scene_frame = np.linalg.inv(self._clouds.T_frame_scene)
        return framed @ T_scene_frame[:3, :3].T + T_scene_frame[:3, 3]

    def _ranked(self, judged: Judged, start: float) -> RankedPoses:
        """Sorted poses between the prepared clouds' frames, as gripper poses with confidences."""
        predictor = self._predictor
        T_scene_trained = self._clouds.gripper_poses(judged.poses.double().numpy())
        values = judged.energies.double().numpy()
        sure = predictor.confidence.of(judged.evidence.double().numpy())
        T_scene_gripper = T_scene_trained @ predictor.T_trained_gripper
        seconds = time.perf_counter() - start
        return RankedPoses(T_scene_gripper, values, sure, seconds, predictor.gripper)


def encoded_field(model: EdfModel, cloud: ThinnedCloud) -> Field:
    """The key field of a cloud that has been thinned for the encoder."""
    with torch.no_grad():
        field = model.key_field(cloud)
        field.tabulate()  # it is asked many times
        return field


def _near(scene: PointCloud, workspace: Box, margin: float) -> PointCloud:
    inside = grown(workspace, margin).contains(scene.points)
    if inside.sum() < 2:
        raise EmptyCloudError(
            f"nothing of the scene is within {margin:.2f} m of the workspace {workspace.lower}.."
            f"{workspace.upper} m: check its frame and unit."
        )
    return scene if inside.all() else scene.selected(inside)


def _both(
    first: Callable[[Tensor], Tensor] | None, second: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    if first is None:
        return second
    return lambda positions: first(positions) & second(positions)

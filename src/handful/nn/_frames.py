"""Edges as the convolution sees them: a length, and a frame whose polar axis is the edge."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from handful.geometry import spherical_harmonics, wigner_d_blocks
from handful.nn._edge_turns import DEGREE as COMPILED_DEGREE
from handful.nn._edge_turns import edge_turns
from handful.nn._layout import block_scatter, component_count, degree_sizes, rows_by_order
from handful.nn._radial import between_knots, smooth_cutoff

TINY = 1e-12


@dataclass(frozen=True, eq=False)
class EdgeGeometry:
    """Directed edges source -> target with everything that depends on positions only.

    Attributes:
        target: Index of the point that receives [edges], ascending.
        source: Index of the point that sends [edges].
        length: Distance over the cut-off radius, in [0, 1] [edges].
        direction: Unit vector from source to target [edges, 3]; zero where both coincide.
        targets: How many receiving points there are.
    """

    target: Int[Tensor, "edges"]
    source: Int[Tensor, "edges"]
    length: Float[Tensor, "edges"]
    direction: Float[Tensor, "edges 3"]
    targets: int
    _alignments: dict[tuple[int, int], Tensor] = field(default_factory=dict, repr=False)
    _turns: dict[int, Tensor] = field(default_factory=dict, repr=False)
    _parts: list[EdgeGeometry] = field(default_factory=list, repr=False)

    @classmethod
    def between(
        cls,
        target: Int[Tensor, "edges"],
        source: Int[Tensor, "edges"],
        target_points: Float[Tensor, "targets 3"],
        source_points: Float[Tensor, "sources 3"],
        radius: float,
    ) -> EdgeGeometry:
        """Edges between two sets of points (or one set and itself) within `radius`."""
        offset = target_points.index_select(0, target) - source_points.index_select(0, source)
        length = offset.square().sum(-1).clamp_min(TINY**2).sqrt()
        return cls(target, source, length / radius, offset / length[:, None], len(target_points))

    def parts(self, most: int) -> list[EdgeGeometry]:
        """The edges in their order, up to `most` at a time. They are made once and kept."""
        if len(self.target) <= most:
            return [self]
        if not self._parts:
            for start in range(0, len(self.target), most):
                some = slice(start, start + most)
                self._parts.append(
                    EdgeGeometry(
                        self.target[some],
                        self.source[some],
                        self.length[some],
                        self.direction[some],
                        self.targets,
                    )
                )
        return self._parts

    @property
    def differentiable(self) -> bool:
        """Whether anything is to be differentiated by the positions."""
        return self.length.requires_grad or self.direction.requires_grad

    @cached_property
    def cutoff(self) -> Float[Tensor, "edges"]:
        """The smooth cut-off of each edge."""
        return smooth_cutoff(self.length)

    @cached_property
    def radial_knots(self) -> tuple[Int[Tensor, "edges"], Float[Tensor, "edges"]]:
        """The knot below each length (`knot_lengths`), and the part of the way to the next one."""
        return between_knots(self.length)

    def turns(self, max_degree: int) -> Float[Tensor, "edges entries"]:
        """Entries of the Wigner matrices that take features to the edges' frames, by degree.

        They are computed once for a degree and kept; those of lower degrees come first.
        """
        if max_degree not in self._turns:
            on_cpu = self.direction.device.type == "cpu"
            if max_degree == COMPILED_DEGREE and on_cpu and not self.differentiable:
                self._turns[max_degree] = edge_turns(self.direction)
                return self._turns[max_degree]
            blocks = wigner_d_blocks(frame_rotation(self.direction), max_degree)
            self._turns[max_degree] = torch.cat([block.flatten(1) for block in blocks], dim=1)
        return self._turns[max_degree]

    def alignment(self, max_degree: int, max_order: int) -> Float[Tensor, "edges rows components"]:
        """Takes features by degree to the edge's frame, rows by order (see `_layout`).

        Its transpose takes them back. Rows of |m| > max_order are left out. It is computed once
        and kept.
        """
        known = self._alignments.get((max_degree, max_order))
        if known is None:
            rows = self._polar_rows if max_order == 0 else partial(self._all_rows, max_order)
            known = self._alignments[max_degree, max_order] = rows(max_degree)
        return known

    def _all_rows(self, max_order: int, max_degree: int) -> Float[Tensor, "edges rows components"]:
        blocks = wigner_d_blocks(frame_rotation(self.direction), max_degree)
        flat = torch.cat([block.flatten(1) for block in blocks], dim=1)
        scatter = block_scatter(max_degree, max_order, flat.dtype, flat.device)
        rows = len(rows_by_order(max_degree, max_order))
        return (flat @ scatter).view(-1, rows, component_count(max_degree))

    def _polar_rows(self, max_degree: int) -> Float[Tensor, "edges rows components"]:
        """Rows m = 0 only: D_l(R)[0, :] = Y_l(edge), no frame needed."""
        harmonics = spherical_harmonics(self.direction, max_degree, normalization="norm")
        select = torch.zeros(max_degree + 1, component_count(max_degree)).to(harmonics)
        first = 0
        for degree, size in enumerate(degree_sizes(max_degree)):
            select[degree, first : first + size] = 1.0
            first += size
        return harmonics[:, None, :] * select


def frame_rotation(direction: Float[Tensor, "edges 3"]) -> Float[Tensor, "edges 3 3"]:
    """A rotation R with R d = y for every unit vector d.

    R is unique up to a turn about y, which no result may depend on. The helping axis is the one
    least along d, so nothing is ever divided by a small number.
    """
    helper = torch.nn.functional.one_hot(direction.abs().argmin(-1), 3).to(direction.dtype)
    across = torch.linalg.cross(helper, direction)
    across = across / across.square().sum(-1, keepdim=True).clamp_min(TINY**2).sqrt()
    return torch.stack([across, direction, torch.linalg.cross(across, direction)], dim=-2)

"""A depth buffer, and triangles and discs drawn into it without a loop over either.

Every primitive is cut into spans (runs of pixels of one row that it covers, found in closed form),
and the spans into (primitive, pixel) candidates, in pieces of bounded size. So a pixel is looked at
only by the primitives that cover it, however large or long they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float, Int

from handful.clouds import Intrinsics

NEAR = 0.01
"""Metres. Nothing closer to the camera than this is drawn."""

CHUNK = 1 << 18
"""Candidates held at once; bounds the memory to some tens of megabytes."""

_EDGE = 1e-9
"""Pixels that a span is widened by, so that neighbours that share an edge leave no crack."""

_NOTHING = -1


class DepthBuffer:
    """For each pixel, the nearest primitive so far and its inverse depth.

    Attributes:
        inverse_depth: 1/z in 1/metre [height, width]; zero where nothing was drawn.
        owner: Number of the nearest primitive [height, width]; -1 where nothing was drawn.
    """

    def __init__(self, intrinsics: Intrinsics) -> None:
        size = (intrinsics.height, intrinsics.width)
        self.intrinsics = intrinsics
        self.inverse_depth: Float[np.ndarray, "height width"] = np.zeros(size)
        self.owner: Int[np.ndarray, "height width"] = np.full(size, _NOTHING, dtype=np.int64)

    @property
    def covered(self) -> Bool[np.ndarray, "height width"]:
        """Where something was drawn."""
        return self.owner != _NOTHING

    def depth(self, empty: float = 0.0) -> Float[np.ndarray, "height width"]:
        """Distance along the optical axis, metres; `empty` where nothing was drawn."""
        filled = np.full(self.inverse_depth.shape, empty)
        return np.divide(1.0, self.inverse_depth, out=filled, where=self.covered)

    def crop(self) -> tuple[slice, slice]:
        """Keep only the rows and columns between which something was drawn; which these are."""
        kept = [np.flatnonzero(self.covered.any(axis=axis)) for axis in (1, 0)]
        rows, columns = (slice(int(some[0]), int(some[-1]) + 1) for some in kept)
        self.inverse_depth = self.inverse_depth[rows, columns]
        self.owner = self.owner[rows, columns]
        return rows, columns

    def put(
        self,
        pixel: Int[np.ndarray, "candidates"],
        inverse_depth: Float[np.ndarray, "candidates"],
        owner: Int[np.ndarray, "candidates"],
    ) -> None:
        """Keep the nearest of the candidates and of what is there."""
        nearest = self.inverse_depth.reshape(-1)
        np.maximum.at(nearest, pixel, inverse_depth)
        won = inverse_depth == nearest[pixel]
        self.owner.reshape(-1)[pixel[won]] = owner[won]


def draw_triangles(
    buffer: DepthBuffer, triangles: Float[np.ndarray, "triangles 3 3"], first_owner: int = 0
) -> None:
    """Draw triangles, exactly and perspective-correct.

    With P = K [p0 p1 p2], the ray of the pixel x = (u, v, 1) meets the triangle where all three
    b = P^-1 x are positive, and there sum(b) = 1/z. Both are linear in x and hold on whichever side
    of the camera the corners are, so that nothing has to be clipped.

    Args:
        buffer: Where to draw.
        triangles: Corners [triangles, 3, 3] in the optical frame, metres.
        first_owner: Number of the first triangle in `DepthBuffer.owner`.
    """
    edges, inverse_depth, numbers = _edge_functions(triangles, buffer.intrinsics)
    low, high = _row_ranges(triangles[numbers], buffer.intrinsics)
    for piece in _pieces(high - low + 1):
        which, offset = _ragged(high[piece] - low[piece] + 1)
        which += piece.start
        row = low[which] + offset
        left, right = _triangle_spans(edges, which, row, buffer.intrinsics.width)
        for part in _pieces(right - left + 1):
            span, step = _ragged(right[part] - left[part] + 1)
            span += part.start
            column, rows, owner = left[span] + step, row[span], which[span]
            plane = inverse_depth[owner]
            inverse = plane[:, 0] * column + plane[:, 1] * rows + plane[:, 2]
            seen = (inverse > 0.0) & (inverse <= 1.0 / NEAR)
            pixel = rows * buffer.intrinsics.width + column
            buffer.put(pixel[seen], inverse[seen], numbers[owner[seen]] + first_owner)


def draw_discs(
    buffer: DepthBuffer,
    centers: Float[np.ndarray, "discs 3"],
    radii: Float[np.ndarray, "discs"],
    first_owner: int = 0,
) -> None:
    """Draw points as discs that face the camera and bulge towards it.

    The bulge makes each pixel belong to the nearest centre where discs of one surface overlap.

    Args:
        buffer: Where to draw.
        centers: Middles [discs, 3] in the optical frame, metres.
        radii: Of the discs, metres; each covers at least the pixel that its middle is in.
        first_owner: Number of the first disc in `DepthBuffer.owner`.
    """
    view = buffer.intrinsics
    numbers = np.flatnonzero(centers[:, 2] > NEAR)
    x, y, z = centers[numbers].T
    u, v = view.fx * x / z + view.cx, view.fy * y / z + view.cy
    radius = np.maximum(radii[numbers] * view.fx / z, 0.5)
    low = np.clip(np.ceil(v - radius), 0, view.height).astype(np.int64)
    high = np.clip(np.floor(v + radius), -1, view.height - 1).astype(np.int64)
    for piece in _pieces(high - low + 1):
        which, offset = _ragged(high[piece] - low[piece] + 1)
        which += piece.start
        row = low[which] + offset
        half = np.sqrt(np.maximum(radius[which] ** 2 - (row - v[which]) ** 2, 0.0))
        left = np.clip(np.ceil(u[which] - half), 0, view.width).astype(np.int64)
        right = np.clip(np.floor(u[which] + half), -1, view.width - 1).astype(np.int64)
        for part in _pieces(right - left + 1):
            span, step = _ragged(right[part] - left[part] + 1)
            span += part.start
            column, rows, owner = left[span] + step, row[span], which[span]
            away = ((column - u[owner]) ** 2 + (rows - v[owner]) ** 2) / radius[owner] ** 2
            depth = z[owner] + radii[numbers[owner]] * away
            buffer.put(rows * view.width + column, 1.0 / depth, numbers[owner] + first_owner)


def _edge_functions(
    triangles: Float[np.ndarray, "triangles 3 3"], view: Intrinsics
) -> tuple[Float[np.ndarray, "kept 3 3"], Float[np.ndarray, "kept 3"], Int[np.ndarray, "kept"]]:
    """Rows of P^-1 up to a positive factor, their sum that gives 1/z, and which triangles count.

    Triangles behind the camera, and those seen exactly edge-on, are left out.
    """
    matrix = np.array([[view.fx, 0.0, view.cx], [0.0, view.fy, view.cy], [0.0, 0.0, 1.0]])
    corners = triangles @ matrix.T
    edges = np.cross(np.roll(corners, -1, axis=1), np.roll(corners, -2, axis=1))
    volume = np.einsum("ij,ij->i", corners[:, 0], edges[:, 0])
    scale = np.linalg.norm(corners, axis=2).prod(axis=1)
    kept = np.flatnonzero((triangles[:, :, 2].max(axis=1) > NEAR) & (abs(volume) > 1e-14 * scale))
    inverse = edges[kept] / volume[kept, None, None]
    return inverse, inverse.sum(axis=1), kept


def _row_ranges(
    triangles: Float[np.ndarray, "triangles 3 3"], view: Intrinsics
) -> tuple[Int[np.ndarray, "triangles"], Int[np.ndarray, "triangles"]]:
    """First and last row that each triangle can touch; first > last where there is none."""
    depth = triangles[:, :, 2]
    in_front = depth.min(axis=1) >= NEAR
    row = view.fy * triangles[:, :, 1] / np.where(in_front[:, None], depth, 1.0) + view.cy
    low = np.where(in_front, np.clip(np.ceil(row.min(axis=1) - _EDGE), 0, view.height), 0)
    last = view.height - 1
    high = np.where(in_front, np.clip(np.floor(row.max(axis=1) + _EDGE), -1, last), last)
    return low.astype(np.int64), high.astype(np.int64)


def _triangle_spans(
    edges: Float[np.ndarray, "triangles 3 3"],
    which: Int[np.ndarray, "spans"],
    row: Int[np.ndarray, "spans"],
    width: int,
) -> tuple[Int[np.ndarray, "spans"], Int[np.ndarray, "spans"]]:
    """First and last column where all edge functions of a row are positive; first > last: none."""
    left = np.zeros(len(row))
    right = np.full(len(row), width - 1.0)
    for side in range(3):
        slope, rise, offset = (edges[:, side, part][which] for part in range(3))
        height = rise * row + offset
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            crossing = -height / slope
        left = np.where(slope > 0, np.maximum(left, crossing - _EDGE), left)
        right = np.where(slope < 0, np.minimum(right, crossing + _EDGE), right)
        right = np.where((slope == 0) & (height < 0), -1.0, right)
    first = np.ceil(np.clip(left, 0, width)).astype(np.int64)
    return first, np.floor(np.clip(right, -1, width - 1)).astype(np.int64)


def _ragged(
    counts: Int[np.ndarray, "groups"],
) -> tuple[Int[np.ndarray, "items"], Int[np.ndarray, "items"]]:
    """Group and place in the group of each of sum(counts) items; counts below 0 mean none."""
    sizes = np.maximum(counts, 0)
    group = np.repeat(np.arange(len(sizes)), sizes)
    start = np.cumsum(sizes) - sizes
    return group, np.arange(len(group)) - start[group]


def _pieces(counts: Int[np.ndarray, "groups"]) -> Iterator[slice]:
    """Cut groups into runs of about `CHUNK` items."""
    if not len(counts):
        return
    piece = (np.cumsum(np.maximum(counts, 0)) - 1) // CHUNK
    cuts = np.flatnonzero(np.diff(piece)) + 1
    ends = [0, *cuts.tolist(), len(counts)]
    for start, stop in itertools.pairwise(ends):
        yield slice(start, stop)

"""Wigner matrices of edges' frames up to degree 2, compiled.

Rows of a frame's rotation R are r0, r1 and r2; r1 is the direction of the edge (`frame_rotation`).
The harmonics of degree 2 are quadratic forms of x, y and z. In the frame they are quadratic forms
of r0·p, r1·p and r2·p, and each is a sum of the five again: these are the entries of D_2(R). Since
rows are orthonormal, traces drop out.
"""

from __future__ import annotations

import math
from typing import no_type_check

from jaxtyping import Float
from torch import Tensor

from handful._compiled import compiled

DEGREE = 2
_ENTRIES = 35


def edge_turns(direction: Float[Tensor, "edges 3"]) -> Float[Tensor, "edges 35"]:
    """Entries of D_0(R), D_1(R) and D_2(R), row by row, for rotations R that turn edges to y."""
    given = direction.detach().contiguous()
    turns = given.new_empty(len(given), _ENTRIES)
    _fill(given.numpy(), turns.numpy())
    return turns


@compiled
@no_type_check
def _fill(direction, turns):
    root = math.sqrt(3.0)
    for e in range(len(direction)):
        x, y, z = direction[e, 0], direction[e, 1], direction[e, 2]
        # The axis least along the edge, crossed with the edge; the first one if two are the same.
        if abs(x) <= abs(y) and abs(x) <= abs(z):
            a, b, c = 0.0 * x, -z, y
        elif abs(y) <= abs(z):
            a, b, c = z, 0.0 * x, -x
        else:
            a, b, c = -y, x, 0.0 * x
        size = max(math.sqrt(a * a + b * b + c * c), 1e-12)
        a, b, c = a / size, b / size, c / size
        u, v, w = b * z - c * y, c * x - a * z, a * y - b * x
        t = turns[e]
        t[0] = 1.0
        t[1], t[2], t[3] = a, b, c
        t[4], t[5], t[6] = x, y, z
        t[7], t[8], t[9] = u, v, w
        t[10], t[11], t[12] = a * w + c * u, a * v + b * u, root * b * v
        t[13], t[14] = b * w + c * v, c * w - a * u
        t[15], t[16], t[17] = a * z + c * x, a * y + b * x, root * b * y
        t[18], t[19] = b * z + c * y, c * z - a * x
        t[20], t[21], t[22] = root * x * z, root * x * y, 1.5 * y * y - 0.5
        t[23], t[24] = root * y * z, 0.5 * root * (z * z - x * x)
        t[25], t[26], t[27] = x * w + z * u, x * v + y * u, root * y * v
        t[28], t[29] = y * w + z * v, z * w - x * u
        t[30], t[31] = u * w - a * c, u * v - a * b
        t[32], t[33] = 0.5 * root * (v * v - b * b), v * w - b * c
        t[34] = 0.5 * ((w * w - u * u) - (c * c - a * a))

"""Coupling coefficients against e3nn and against what they are for."""

import pytest
import torch
from e3nn import o3

from handful.errors import GeometryError
from handful.geometry import coupling_coefficients, haar_rotations, wigner_d

TRIPLES = [
    (a, b, c) for a in range(4) for b in range(4) for c in range(abs(a - b), min(a + b, 4) + 1)
]


@pytest.mark.parametrize("triple", TRIPLES, ids=str)
def test_coupling_is_e3nns_up_to_sign(triple):
    ours, theirs = coupling_coefficients(*triple), o3.wigner_3j(*triple, dtype=torch.float64)
    sign = (ours * theirs).sum().sign()
    torch.testing.assert_close(ours, sign * theirs, atol=1e-12, rtol=0)


@pytest.mark.parametrize("triple", [(1, 1, 1), (2, 1, 3), (3, 2, 2)], ids=str)
def test_coupling_is_invariant(triple):
    (rotation,) = haar_rotations(1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours = coupling_coefficients(*triple)
    blocks = [wigner_d(rotation, degree) for degree in triple]
    turned = torch.einsum("ai,bj,ck,ijk->abc", *blocks, ours)
    torch.testing.assert_close(turned, ours, atol=1e-12, rtol=0)
    assert ours.norm().item() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("triple", [(0, 0, 1), (1, 1, 3), (-1, 1, 0)], ids=str)
def test_types_that_do_not_couple_are_refused(triple):
    with pytest.raises(GeometryError, match="do not couple"):
        coupling_coefficients(*triple)

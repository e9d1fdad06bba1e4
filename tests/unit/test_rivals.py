"""Rivals: minima elsewhere that a lattice passes by are found in training, and compete."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fisher import match_energy
from handful.clouds import NeighbourIndex
from handful.errors import OptionError
from handful.learning import LatticeNegatives, NearTarget, Rivals
from handful.models import EncodedCloud, MatchEnergy

DTYPE = torch.float64
HERE, THERE = (torch.tensor([x, 0.0, 0.0], dtype=DTYPE) for x in (-0.062, 0.062))
NARROW = 0.005
"""Metres: width of both minima, on a lattice of 2.5 cm."""
SEARCH = {"reach": 0.03, "spacing": 0.025, "rotations": 60}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def scene() -> EncodedCloud:
    grid = np.mgrid[-5:6, -2:3, -1:2].reshape(3, -1).T * 0.02
    points = torch.tensor(grid, dtype=DTYPE)
    return EncodedCloud(points, torch.zeros(len(points), 1, 1), NeighbourIndex(grid))


def two_minima(depth: float = 1.0) -> tuple[MatchEnergy, torch.Tensor]:
    """An energy with a narrow minimum at the target and one elsewhere, and the target's pose."""
    energy = match_energy(1)
    query = energy.queries.descriptors[0].detach() * 12.0
    queries = replace(energy.queries, descriptors=query[None])

    def field(x: torch.Tensor) -> torch.Tensor:
        bumps = [
            scale * torch.exp(-(x - at).square().sum(-1, keepdim=True) / (2 * NARROW**2))
            for at, scale in ((HERE, 1.0), (THERE, depth))
        ]
        return query * (bumps[0] + bumps[1])

    pose = torch.eye(4, dtype=DTYPE)
    pose[:3, 3] = HERE - queries.positions[0].detach()
    return replace(energy, queries=queries, field=field), pose


def test_a_minimum_elsewhere_is_found_and_that_of_the_target_is_not():
    energy, pose = two_minima()
    minima = Rivals(8, refine_steps=12).find(
        energy, pose[None], scene(), generator=seeded(), **SEARCH
    )
    found = minima.rivals
    assert float((minima.right[:, :3, 3] - pose[:3, 3]).norm(dim=-1).min()) < 0.003
    where = (found @ torch.cat([energy.queries.positions[0].detach(), torch.ones(1)]))[:, :3]
    assert float((where - THERE).norm(dim=-1).min()) < 0.003
    best = energy(found).min()
    assert float(best) == pytest.approx(float(energy(pose[None])), abs=0.3)
    turned = found[:, :3, :3].diagonal(0, 1, 2).sum(-1) > 2.9
    assert not bool((((where - HERE).norm(dim=-1) < 0.01) & turned).any()), "the target's own"
    assert not found.requires_grad


def loss_of(depth: torch.Tensor, rivals: Rivals, seed: int = 0) -> torch.Tensor:
    energy, pose = two_minima(depth)
    negatives = LatticeNegatives(rotations=60, near=NearTarget(63), rivals=rivals)
    return negatives.likelihood(energy, pose[None], scene(), seeded(seed), progress=0.9).loss


def test_a_deep_minimum_elsewhere_costs_and_is_pushed_up():
    """The lattice alone passes by it: the loss hardly tells a deep one from none."""
    always = Rivals(8, refine_steps=12, share=1.0)
    deep, none = torch.tensor(1.0, dtype=DTYPE), torch.tensor(0.0, dtype=DTYPE)
    seen = float(loss_of(deep, always) - loss_of(none, always))
    unseen = float(loss_of(deep, Rivals()) - loss_of(none, Rivals()))
    assert seen > 0.3
    assert seen > 3 * unseen
    depth = deep.clone().requires_grad_()
    loss_of(depth, always).backward()
    assert float(depth.grad) > 0, "a shallower one is better"


def test_a_scene_without_other_minima_is_no_matter():
    energy, pose = two_minima()
    flat = replace(energy, field=lambda x: torch.zeros(len(x), energy.types.dim, dtype=DTYPE))
    negatives = LatticeNegatives(rotations=60, near=NearTarget(8), rivals=Rivals(8, share=1.0))
    found = negatives.likelihood(flat, pose[None], scene(), seeded(), progress=0.9)
    assert torch.isfinite(found.loss)


def test_rivals_are_looked_for_as_often_as_stated_and_not_at_the_beginning():
    rivals, generator = Rivals(4, share=0.3, begin=0.4), seeded()
    assert not any(rivals.wanted(0.39, generator) for _ in range(50))
    asked = [rivals.wanted(0.4, generator) for _ in range(500)]
    assert np.mean(asked) == pytest.approx(0.3, abs=0.06)
    assert not any(Rivals(0, share=1.0).wanted(1.0, generator) for _ in range(20))


@pytest.mark.parametrize(
    "wrong",
    [{"most": -1}, {"starts": 0}, {"refine_steps": 0}, {"share": 1.5}, {"begin": float("nan")}],
)
def test_impossible_numbers_are_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        Rivals(**wrong)

"""What speaks against poses: their energies, and where there is a verifier, its doubts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from handful.models import MatchEnergy, Verifier

CONSIDERED = 16
"""Poses that a verifier is asked about, at least, however few are wanted."""
JUDGED_AT_ONCE = 128


@dataclass(frozen=True, eq=False)
class Judged:
    """Poses with what speaks against them.

    Attributes:
        poses: Between the frames of the prepared clouds.
        energies: E(T), and where there is a verifier, -log P(T is right) besides: of poses that are
            surely right the energy alone tells which is best.
        evidence: What confidence is a function of. The verifier's logit, negated; without one, the
            energy as a share of what the query descriptors would cost against nothing at all.
            Weights and descriptors differ from one held object to the next, and only these shares
            can be compared between scenes.
    """

    poses: Float[Tensor, "poses 4 4"]
    energies: Float[Tensor, "poses"]
    evidence: Float[Tensor, "poses"]

    @classmethod
    def of(
        cls,
        energy: MatchEnergy,
        verifier: Verifier | None,
        poses: Float[Tensor, "poses 4 4"],
        energies: Float[Tensor, "poses"],
    ) -> Judged:
        """Poses whose energies are known."""
        with torch.no_grad():
            if verifier is None:
                return cls(poses, energies, energies / max(energy.of_nothing(), 1e-12))
            parts = [verifier(energy, part) for part in poses.split(JUDGED_AT_ONCE)]
            logits = torch.cat(parts) if parts else energies[:0]
        return cls(poses, energies + functional.softplus(-logits), -logits)

    @classmethod
    def joined(cls, parts: Sequence[Judged]) -> Judged:
        """Several of them, one after the other."""
        return cls(
            torch.cat([part.poses for part in parts]),
            torch.cat([part.energies for part in parts]),
            torch.cat([part.evidence for part in parts]),
        )

    def selected(self, which: Tensor) -> Judged:
        """Some of them, by a mask or by numbers."""
        return Judged(self.poses[which], self.energies[which], self.evidence[which])

    def sorted(self) -> Judged:
        """The best first."""
        return self.selected(self.energies.argsort(stable=True))

    def __len__(self) -> int:
        return len(self.energies)

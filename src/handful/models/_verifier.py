"""The verifier: whether a pose is a right one, told from all that is around it.

The energy of a pose compares the key field at a few query points with what it should be there. It
is trained to be lower at the target than anywhere else in the same scene, and nothing makes
energies of different scenes comparable: a scene without a target has a lowest energy, too. The
verifier looks at the field around the gripper as well, at probes that are fixed to it, and is
trained to tell right poses from wrong ones, whatever the scene.

Values of the field at T p_i, turned into the gripper frame by D(R)^-1, do not change when scene and
pose move together. Whatever is computed from them is therefore left invariant, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from handful._checks import shown
from handful.errors import OptionError
from handful.geometry import pose_to_rotation_translation, rotation_apply
from handful.models._energy import MatchEnergy
from handful.nn import Types

SCALE = 0.2
"""Of the inputs. They are many: what a step of training changes adds up over all of them."""
MAX_PROBES, MAX_REACH, MAX_HIDDEN = 1_000, 10.0, 4_096


@dataclass(frozen=True)
class VerifierConfig:
    """What a verifier is built from.

    Attributes:
        probes: x, y and z in the gripper frame, metres: where the key field is looked at.
        hidden: Width of its hidden layers.
    """

    probes: tuple[tuple[float, ...], ...]
    hidden: int = 64

    def __post_init__(self) -> None:
        if {len(probe) for probe in self.probes} != {3} or not np.isfinite(self.probes).all():
            raise OptionError(
                f"verifier probes are {shown(self.probes)}: need one or more x, y, z in metres."
            )
        if len(self.probes) > MAX_PROBES or np.abs(self.probes).max() > MAX_REACH:
            raise OptionError(
                f"{len(self.probes)} verifier probes, up to {np.abs(self.probes).max():g} m from "
                f"the gripper: need at most {MAX_PROBES}, within {MAX_REACH:g} m."
            )
        if not 1 <= self.hidden <= MAX_HIDDEN:
            raise OptionError(f"verifier hidden is {self.hidden}: need 1 to {MAX_HIDDEN}.")


class Verifier(nn.Module):
    """The logit that a pose is right: a perceptron of the field around it and of its energy.

    Args:
        config: What it is built from.
        types: What the descriptors hold.
    """

    def __init__(self, config: VerifierConfig, types: Types) -> None:
        super().__init__()
        self._types = types
        self.register_buffer("_probes", torch.tensor(config.probes), persistent=False)
        self._probes: Tensor
        self._first = nn.Linear(len(config.probes) * types.dim + 1, config.hidden)
        self._second = nn.Linear(config.hidden, config.hidden)
        self._last = nn.Linear(config.hidden, 1)

    @property
    def probes(self) -> Float[Tensor, "probes 3"]:
        """Where it looks, in the gripper frame, metres."""
        return self._probes

    def forward(
        self, energy: MatchEnergy, poses: Float[Tensor, "poses 4 4"]
    ) -> Float[Tensor, "poses"]:
        """Logits of poses T_scene_gripper; no gradient goes through their energies."""
        rotation, translation = pose_to_rotation_translation(poses)
        where = rotation_apply(rotation, self._probes) + translation[:, None]
        seen = energy.field(where.flatten(0, 1)).unflatten(0, where.shape[:2])
        turned = self._types.rotated(seen, rotation.mT[:, None]).flatten(1) * SCALE
        with torch.no_grad():
            share = energy(poses) / max(energy.of_nothing(), 1e-12)
        hidden = functional.silu(self._first(torch.cat([turned, share[:, None]], dim=1)))
        hidden = functional.silu(self._second(hidden))
        return self._last(hidden).squeeze(1)

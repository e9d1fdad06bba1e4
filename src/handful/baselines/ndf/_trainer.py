"""The trainer of pre-training, which keeps a network for other steps and tasks.

Pre-training knows nothing of a task: the same recipe leads to the same network. It is kept in
`$XDG_CACHE_HOME/handful/ndf`, or under `~/.cache`, under a name made of all that decides it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from handful._files import atomic_write_bytes, make_folder, remove_file
from handful.baselines.ndf._network import NdfNetwork
from handful.baselines.ndf._pretraining import OccupancyObjective, ShapeBank
from handful.learning import StepReport, Trainer, TrainingConfig


class PreTrainer(Trainer[NdfNetwork, ShapeBank]):
    """A trainer that is done at once where the same network was trained before.

    Args:
        model: What to train, in place.
        objective: What to lower.
        examples: A bank of shapes.
        config: How long and how fast.
        name: Of the network; the same for the same recipe only.

    Attributes:
        earlier: Seconds that it took when it was trained before; None if it was not.
    """

    def __init__(
        self,
        model: NdfNetwork,
        objective: OccupancyObjective,
        examples: list[ShapeBank],
        config: TrainingConfig,
        name: str,
    ) -> None:
        super().__init__(model, objective, examples, config)
        self.earlier: float | None = None
        self._file = cache_folder() / f"{name}.safetensors"
        self._remember()

    def run(
        self, report: Callable[[StepReport], None] | None = None, until: int | None = None
    ) -> None:
        """Train up to step `until` (the end by default), and keep the network at the end."""
        start, first = monotonic(), self.done
        super().run(report, until)
        if first < self.done == self.config.steps:
            seconds = (monotonic() - start) * self.done / (self.done - first)
            make_folder(self._file.parent)
            atomic_write_bytes(self._file, save(self.state(), {"seconds": str(seconds)}))

    def _remember(self) -> None:
        """Go on from the end, if it is known; a file that is not whole is as good as none."""
        if not self._file.is_file():
            return
        try:
            with safe_open(self._file, framework="pt") as file:
                seconds = float((file.metadata() or {})["seconds"])
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            self.resume(state)
            self.earlier = seconds
        except (SafetensorError, OSError, KeyError, ValueError, RuntimeError):
            remove_file(self._file)


def cache_folder() -> Path:
    """Where networks are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "handful" / "ndf"

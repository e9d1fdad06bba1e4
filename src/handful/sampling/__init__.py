"""Samplers of gripper poses: one interface, interchangeable."""

from ._descent import Descent as Descent
from ._diagnostics import chain_effective_sample_size as chain_effective_sample_size
from ._diagnostics import weight_effective_sample_size as weight_effective_sample_size
from ._exhaustive_sampler import ExhaustiveSampler as ExhaustiveSampler
from ._exhaustive_search import ExhaustiveSearch as ExhaustiveSearch
from ._grid import PoseLattice as PoseLattice
from ._grid import near_points as near_points
from ._grid import pose_lattice as pose_lattice
from ._langevin import Langevin as Langevin
from ._metropolis import MetropolisHastings as MetropolisHastings
from ._paper import PaperSchedule as PaperSchedule
from ._partition import lattice_log_partition as lattice_log_partition
from ._partition import lattice_log_partitions as lattice_log_partitions
from ._sampler import Kernel as Kernel
from ._sampler import Sampler as Sampler
from ._samples import PoseSamples as PoseSamples
from ._samples import SamplingReport as SamplingReport
from ._samples import count_modes as count_modes
from ._samples import distinct_poses as distinct_poses
from ._samples import mode_coverage as mode_coverage
from ._target import Energy as Energy
from ._target import EnergyError as EnergyError
from ._target import Target as Target

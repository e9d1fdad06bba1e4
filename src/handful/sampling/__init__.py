"""Samplers of gripper poses with one interface.

`chains` holds the Markov chains of the paper; `lattice` holds the search and the sampler that look
at all poses of a lattice.
"""

from ._sampler import Kernel as Kernel
from ._sampler import Sampler as Sampler
from ._samples import PoseSamples as PoseSamples
from ._samples import SamplingReport as SamplingReport
from ._samples import distinct_poses as distinct_poses
from ._samples import mode_coverage as mode_coverage
from ._target import Energy as Energy
from ._target import EnergyError as EnergyError
from ._target import Target as Target
from .chains import Descent as Descent
from .chains import Langevin as Langevin
from .chains import MetropolisHastings as MetropolisHastings
from .chains import PaperSchedule as PaperSchedule
from .chains import chain_effective_sample_size as chain_effective_sample_size
from .lattice import ExhaustiveSampler as ExhaustiveSampler
from .lattice import ExhaustiveSearch as ExhaustiveSearch
from .lattice import NothingToSearch as NothingToSearch
from .lattice import PoseLattice as PoseLattice
from .lattice import PositionMask as PositionMask
from .lattice import lattice_log_partition as lattice_log_partition
from .lattice import lattice_log_partitions as lattice_log_partitions
from .lattice import near_points as near_points
from .lattice import pose_lattice as pose_lattice
from .lattice import weight_effective_sample_size as weight_effective_sample_size

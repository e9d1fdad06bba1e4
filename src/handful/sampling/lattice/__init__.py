"""Exhaustive search and exact sampling of a `MatchEnergy` on lattices of poses."""

from ._correction import weight_effective_sample_size as weight_effective_sample_size
from ._exhaustive_sampler import ExhaustiveSampler as ExhaustiveSampler
from ._exhaustive_search import ExhaustiveSearch as ExhaustiveSearch
from ._grid import NothingToSearch as NothingToSearch
from ._grid import PoseLattice as PoseLattice
from ._grid import PositionMask as PositionMask
from ._grid import near_points as near_points
from ._grid import pose_lattice as pose_lattice
from ._partition import lattice_log_partition as lattice_log_partition
from ._partition import lattice_log_partitions as lattice_log_partitions

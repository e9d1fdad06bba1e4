"""Descriptor fields, query models, energies, and the pick and place models."""

from ._energy import MatchEnergy as MatchEnergy
from ._energy import PoseEnergy as PoseEnergy
from ._energy import QueryPoints as QueryPoints

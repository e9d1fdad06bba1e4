"""Learning from demonstrations: objectives and the trainer."""

from ._bound import LatticeConfig as LatticeConfig
from ._bound import query_energies as query_energies
from ._bound import query_losses as query_losses
from ._crops import ContextDropout as ContextDropout
from ._objectives import Loss as Loss
from ._objectives import PickObjective as PickObjective
from ._objectives import PlaceObjective as PlaceObjective
from ._schedule import Schedule as Schedule
from ._surrogate import SurrogateConfig as SurrogateConfig
from ._surrogate import SurrogateQueries as SurrogateQueries
from ._trainer import Objective as Objective
from ._trainer import StepReport as StepReport
from ._trainer import Trainer as Trainer
from ._trainer import TrainingConfig as TrainingConfig
from ._trainer import TrainingError as TrainingError

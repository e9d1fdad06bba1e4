"""Learning from demonstrations: objectives and the trainer."""

from ._surrogate import SurrogateConfig as SurrogateConfig
from ._surrogate import SurrogateQueries as SurrogateQueries

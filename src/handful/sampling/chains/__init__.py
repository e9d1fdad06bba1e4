"""Markov chains on poses, as the paper samples (its appendix on sampling), and descent."""

from ._descent import Descent as Descent
from ._diagnostics import chain_effective_sample_size as chain_effective_sample_size
from ._langevin import Langevin as Langevin
from ._metropolis import MetropolisHastings as MetropolisHastings
from ._paper_schedule import PaperSchedule as PaperSchedule
from ._steps import reorthonormalised as reorthonormalised
from ._steps import step_scale as step_scale

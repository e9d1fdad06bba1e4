"""How good models are: on demonstrations that they have not seen, and on their own."""

from ._answers import Answer as Answer
from ._answers import Outcome as Outcome
from ._answers import ask as ask
from ._answers import ask_without as ask_without
from ._answers import pose_error as pose_error
from ._calibrate import calibrate_run as calibrate_run
from ._calibrate import check_same_training as check_same_training
from ._calibrate import correction_of as correction_of
from ._folds import Fold as Fold
from ._folds import evaluate as evaluate
from ._folds import fold_recipes as fold_recipes
from ._folds import folds_of as folds_of
from ._found_again import found_again as found_again
from ._page import Evaluation as Evaluation
from ._page import is_evaluation as is_evaluation
from ._page import is_trained_only as is_trained_only
from ._page import read_evaluation as read_evaluation
from ._page import write_evaluation as write_evaluation
from ._page import write_evaluation_page as write_evaluation_page
from ._storage import read_answers as read_answers
from ._storage import write_answers as write_answers
from ._summary import StepSummary as StepSummary
from ._summary import advice as advice
from ._summary import summaries_of as summaries_of

"""What came of the episodes: rates with intervals, tables, charts, and one page about it all."""

from ._curve import CurvePoint as CurvePoint
from ._curve import check_sizes as check_sizes
from ._curve import curve_run as curve_run
from ._curve import first_demos as first_demos
from ._page import write_report as write_report
from ._paper import PaperRates as PaperRates
from ._results import Result as Result
from ._results import RunResults as RunResults
from ._results import curve_of as curve_of
from ._results import read_run as read_run
from ._results import read_runs as read_runs
from ._statistics import Rate as Rate
from ._statistics import StepSummary as StepSummary
from ._statistics import Summary as Summary
from ._statistics import summarise as summarise
from ._statistics import table_of as table_of
from ._tables import by_steps as by_steps
from ._tables import joined_seconds as joined_seconds
from ._tables import joined_skips as joined_skips
from ._tables import paper_rate as paper_rate
from ._tables import table_as_json as table_as_json

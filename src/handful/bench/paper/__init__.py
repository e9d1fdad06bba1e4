"""The paper's tables and figure, each as a study: what is trained, where it is judged, a page."""

from ._page import study_blocks as study_blocks
from ._page import write_paper_page as write_paper_page
from ._studies import STUDIES as STUDIES
from ._studies import Contender as Contender
from ._studies import Study as Study
from ._studies import chosen_studies as chosen_studies
from ._workspace import PaperFolder as PaperFolder

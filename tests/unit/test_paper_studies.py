"""The paper's tables as data, and the page that shows ours beside them."""

import pytest

pytest.importorskip("mujoco")

from handful.bench.paper import STUDIES, PaperFolder, chosen_studies, study_blocks
from handful.bench.report import Table
from handful.errors import OptionError
from handful.learning import method_named
from handful.sim import Setup, Variant, task_named

CONTENDERS = [(study, one) for study in STUDIES.values() for one in study.contenders]


@pytest.mark.parametrize(("study", "contender"), CONTENDERS)
def test_totals_of_the_paper_are_products_of_its_steps(study, contender):
    """A slip in typing would break it: the table rounds to hundredths."""
    for rates in contender.rates.values():
        product = 1.0
        for rate in rates.steps.values():
            product *= rate
        assert rates.total == pytest.approx(product, abs=0.0151)


@pytest.mark.parametrize(("study", "contender"), CONTENDERS)
def test_all_that_studies_name_exists(study, contender):
    method = method_named(contender.method)
    assert not contender.preset or contender.preset in method.presets
    for task in study.tasks:
        task_named(task)
        Variant.named(contender.variant(task))
    for setup in study.setups:
        Setup.named(setup)


def test_tables_share_models_and_no_two_models_share_a_folder(tmp_path):
    folder = PaperFolder(tmp_path)
    owners = {}
    for study, one in CONTENDERS:
        for task in study.tasks:
            key = (one.method, one.preset or method_named(one.method).presets[0],
                   one.variant(task), one.demonstrations)  # fmt: skip
            owners.setdefault(folder.run(task, one), set()).add((task, *key))
    assert all(len(keys) == 1 for keys in owners.values())
    ablation, default = STUDIES["ablation"].contenders[2], STUDIES["default"].contenders[0]
    assert folder.run("mug", ablation) == folder.run("mug", default)


def test_a_table_shows_the_paper_before_anything_is_run(tmp_path):
    blocks = study_blocks(PaperFolder(tmp_path), STUDIES["sota"])
    tables = [block for block in blocks if isinstance(block, Table)]
    assert len(tables) == 3
    first = tables[0].rows[0]
    told = [cell.text for cell in first]
    assert told[:5] == [
        "instances",
        "SE(3)-Transporter Networks",
        "- (1.00)",
        "- (0.36)",
        "- (0.36)",
    ]
    assert len(tables[0].rows) == 8


def test_studies_are_chosen_by_name():
    assert [one.name for one in chosen_studies("all")] == list(STUDIES)
    with pytest.raises(OptionError, match="unknown table 'lasa'"):
        chosen_studies("lasa")

"""The report's charts, pages and what it reads."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from bench_samples import CONDITIONS, episode
from handful.bench import BenchError, EpisodeStore, Failure, curve_of, curve_run, write_report
from handful.bench._charts import Line, _ticks, line_chart, success_chart
from handful.bench._document import (
    Cards,
    Cell,
    Code,
    Gallery,
    Heading,
    Paragraph,
    Picture,
    Table,
    write_markdown,
    write_page,
)
from handful.bench._results import read_run, read_runs
from handful.bench._statistics import summarise


def elements(svg, name):
    tree = ElementTree.fromstring(svg)
    return [one for one in tree.iter() if one.tag.endswith(f"}}{name}")]


def words(svg):
    return [one.text for one in elements(svg, "text")]


def test_a_line_chart_is_xml_with_its_words():
    x = np.arange(50.0)
    svg = line_chart([Line("loss <1>", x, np.exp(-x / 10), smooth=5)], "title & more", "step")
    assert {"title & more", "step", "loss <1>"} <= set(words(svg))
    assert len(elements(svg, "path")) == 2


def test_a_line_chart_leaves_out_what_is_not_finite():
    x = np.arange(4.0)
    svg = line_chart([Line("a", x, np.array([1.0, np.nan, np.inf, 2.0]))], "t", "x")
    (path,) = elements(svg, "path")
    assert "nan" not in path.get("d")
    assert "inf" not in path.get("d")


def test_constant_and_single_values_can_be_drawn():
    for values in ([2.0], [0.0, 0.0], [1e9, 1e9]):
        x = np.arange(float(len(values)))
        assert elements(line_chart([Line("a", x, np.array(values))], "t", "x"), "path")


def test_ticks_are_round_and_inside():
    for low, high in ((0.0, 1.0), (-3.2, 17.9), (0.001, 0.0042), (1e5, 3e6)):
        ticks = _ticks(low, high)
        assert 3 <= len(ticks) <= 11
        assert min(ticks) >= low - 1e-9
        assert max(ticks) <= high * (1 + 1e-9)


def test_the_success_chart_shows_rate_interval_and_paper():
    svg = success_chart([("mug, all", summarise([episode(n, placed=n < 3) for n in range(4)]))])
    assert "3 of 4" in words(svg)
    assert len(elements(svg, "rect")) == 1
    assert len(elements(svg, "path")) == 2


BLOCKS = [
    Heading("A <title>", 1),
    Paragraph("1 < 2 & so on"),
    Cards((("0.95", "success", "95 of 100"),)),
    Table(("name", "value"), ((Cell("a|b"), Cell("1", "a note", "good")),)),
    Code("handful bench mug --run 'a b'"),
    Gallery((Picture("one.jpg", b"\xff\xd8", "first"), Picture("two.svg", b"<svg/>", "second"))),
]


def test_a_page_stands_alone_and_escapes(tmp_path):
    write_page(BLOCKS, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<h1>A &lt;title&gt;</h1>" in page
    assert "1 &lt; 2 &amp; so on" in page
    assert "data:image/jpeg;base64,/9g=" in page
    assert "<svg/>" in page
    assert "http" not in page.replace("http-equiv", "")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_markdown_has_its_pictures_beside_it(tmp_path):
    write_markdown(BLOCKS, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "| a\\|b | 1 (a note) |" in text
    assert "![first](page_files/one.jpg)" in text
    assert (tmp_path / "page_files" / "one.jpg").read_bytes() == b"\xff\xd8"


def made_run(folder, seeds=range(10_000, 10_004), failed=(10_002,)):
    store = EpisodeStore(folder / "bench", CONDITIONS)
    for seed in seeds:
        store.add(episode(seed, placed=seed not in failed))
    (folder / "run.json").write_text(
        json.dumps(
            {
                "command": "handful train demos --out run", "torch": "2.0",
                "demonstrations": {"folder": "nowhere", "count": 10},
                "pick": {"seconds": 240.0, "seed": 0}, "place": {"seconds": 480.0, "seed": 0},
            }
        )
    )  # fmt: skip
    lines = [
        {"step": n, "steps": 30, "loss": 9.0 / (n + 1), "likelihood": 8.0 / (n + 1),
         "target_energy": 1.0, "negative_energy": 2.0}
        for n in range(30)
    ]  # fmt: skip
    (folder / "pick.log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_report_tells_all_that_a_run_holds(tmp_path):
    made_run(tmp_path)
    page = write_report(tmp_path, tmp_path / "report.html", pictures=False).read_text()
    for text in (
        "0.75", "paper 0.95", "handful train demos --out run", "4.0 + 8.0", "pick: energies",
        Failure.PLACE_LOST.value, "seeds 10000 to 10003", "evaluation",
    ):  # fmt: skip
        assert text in page
    assert "Not a fair judgement" not in page
    text = (tmp_path / "report.md").read_text()
    assert "| mug | all |" in text
    assert (tmp_path / "report_files" / "success.svg").exists()


def test_development_seeds_are_said_to_be_such_and_give_way_to_evaluation(tmp_path):
    made_run(tmp_path, seeds=range(2_000, 2_003))
    page = write_report(tmp_path, tmp_path / "report.html", pictures=False).read_text()
    assert "Not a fair judgement: some rows are of seeds for development" in page
    store = EpisodeStore(tmp_path / "bench", CONDITIONS)
    store.add(episode(10_000))
    (result,) = read_run(tmp_path).results
    assert [record.seed for record in result.records] == [10_000]


def test_a_folder_of_runs_has_one_report(tmp_path):
    for name in ("one", "two"):
        made_run(tmp_path / name)
    assert len(read_runs(tmp_path)) == 2
    page = write_report(tmp_path, tmp_path / "all.html", pictures=False).read_text()
    assert page.count("Training (mug)") == 2


def test_a_learning_curve_is_read_from_its_runs(tmp_path):
    made_run(tmp_path)
    for count, failed in ((1, (10_000, 10_001)), (10, ())):
        store = EpisodeStore(curve_run(tmp_path, count) / "bench", CONDITIONS)
        for seed in range(10_000, 10_004):
            store.add(episode(seed, placed=seed not in failed))
    assert [(point.demonstrations, point.summary.total.value) for point in curve_of(tmp_path)] == [
        (1, 0.5),
        (10, 1.0),
    ]
    page = write_report(tmp_path, tmp_path / "report.html", pictures=False).read_text()
    assert "Learning curve" in page


def test_the_run_itself_is_a_point_of_its_learning_curve(tmp_path):
    made_run(tmp_path)
    content = json.loads((tmp_path / "run.json").read_text())
    content["demonstrations"] = {"folder": "demos", "count": 7}
    (tmp_path / "run.json").write_text(json.dumps(content))
    assert not read_run(tmp_path).curve
    store = EpisodeStore(curve_run(tmp_path, 3) / "bench", CONDITIONS)
    store.add(episode(10_000))
    with_meshes = EpisodeStore(tmp_path / "bench", replace(CONDITIONS, objects="cups 0123"))
    with_meshes.add(episode(10_000, placed=False))
    run = read_run(tmp_path)
    assert [point.demonstrations for point in run.curve] == [3, 7]
    own = next(one for one in run.results if one.conditions == CONDITIONS)
    meshes = next(one for one in run.results if one.conditions.objects)
    assert (own.summary.paper is None, meshes.summary.paper is None) == (False, True)
    assert run.curve[1].summary == own.summary


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(BenchError, match="run the benchmark first"):
        write_report(tmp_path, tmp_path / "report.html")
    (tmp_path / "bench").mkdir()
    with pytest.raises(BenchError, match="no finished episode"):
        write_report(tmp_path, tmp_path / "report.html")

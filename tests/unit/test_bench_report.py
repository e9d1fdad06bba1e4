"""The report's charts, pages and what it reads."""

import json
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from bench_samples import CONDITIONS, RUN_JSON_V1, STEPS, TIDY, episode, write_store_v1
from handful.bench import (
    BenchError,
    EpisodeStore,
    curve_of,
    curve_run,
    summarise,
    write_report,
)
from handful.bench.report import read_run, read_runs
from handful.bench.report._charts import COLORS, Line, _ticks, line_chart, success_chart
from handful.bench.report._document import (
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
from handful.errors import FileFormatError


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


def test_a_legend_of_many_long_names_stays_inside_and_names_do_not_meet():
    x = np.arange(2.0)
    names = [f"a rather long name of a step {n}" for n in range(len(COLORS) + 2)]
    svg = line_chart([Line(name, x, x) for name in names], "t", "x")
    width = float(ElementTree.fromstring(svg).get("viewBox").split()[2])
    places = [
        (float(one.get("y")), float(one.get("x")), len(one.text))
        for one in elements(svg, "text")
        if one.text in names
    ]
    assert len(places) == len(names)
    assert all(x + 6.6 * length <= width for _, x, length in places)
    for (y, x, length), (next_y, next_x, _) in pairwise(places):
        assert next_y > y or next_x >= x + 6.6 * length
    assert len(
        {(one.get("stroke"), one.get("stroke-dasharray")) for one in elements(svg, "path")}
    ) == len(names)


def test_the_success_chart_shows_rate_interval_and_paper():
    records = [episode(n, done=2 if n < 3 else 1) for n in range(4)]
    svg = success_chart([("mug, all", summarise(records))])
    assert "3 of 4" in words(svg)
    assert len(elements(svg, "rect")) == 1
    assert len(elements(svg, "path")) == 2


BLOCKS = [
    Heading("A <title>", 1),
    Paragraph("1 < 2 & so on"),
    Cards((("0.95", "success", "95 of 100"),)),
    Table(("name", "value"), ((Cell("a|b"), Cell("1", "a note", "good")),)),
    Code("handful bench mug --run 'a b'"),
    Gallery(
        (
            Picture("one", ".jpg", b"\xff\xd8", "first"),
            Picture("two", ".svg", b"<svg/>", "second"),
        )
    ),
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
    assert "<title>" not in text


def made_run(
    folder, seeds=range(10_000, 10_004), failed=(10_002,), steps=STEPS, task="mug", **changes
):
    """A run with a model's results and notes of its training; the last step of some failed."""
    conditions = replace(CONDITIONS, task=task, **changes)
    store = EpisodeStore(folder / "bench", conditions)
    for seed in seeds:
        done = len(steps) - 1 if seed in failed else len(steps)
        store.add(episode(seed, done=done, task=task, steps=steps))
    actions = {name: "pick" if number % 2 == 0 else "place" for number, name in enumerate(steps)}
    note = {
        "format": "handful-run", "version": 2,
        "steps": [{"name": name, "action": action} for name, action in actions.items()],
        "command": "handful train demos --out run", "torch": "2.0",
        "demonstrations": {"folder": "nowhere", "count": 10},
        "models": {
            name: {"seconds": 240.0 * (number + 1), "seed": 7} for number, name in enumerate(steps)
        },
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(note))
    for name in steps:
        write_log(folder, name)


def write_log(folder, step):
    lines = [
        {"step": n, "steps": 30, "loss": 9.0 / (n + 1), "likelihood": 8.0 / (n + 1),
         "target_energy": 1.0, "negative_energy": 2.0}
        for n in range(30)
    ]  # fmt: skip
    path = folder / f"{step}.log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def report_of(folder):
    page = write_report(folder, folder / "report.html", pictures=False).read_text()
    return page, (folder / "report.md").read_text()


def test_a_report_tells_all_that_a_run_holds(tmp_path):
    made_run(tmp_path)
    page, text = report_of(tmp_path)
    for words_of_it in (
        "0.75", "paper 0.95", "handful train demos --out run", "4.0 + 8.0", "pick + place",
        "5.5 + 8.5 hours", "pick: energies", "place: energies", "place: object not held",
        "seeds 10000 to 10003", "evaluation",
    ):  # fmt: skip
        assert words_of_it in page
    assert "Not a fair judgement" not in page
    assert "| task | setup | episodes | pick | place | total |" in text
    assert "| mug | all |" in text
    assert (tmp_path / "report_files" / "success.svg").exists()


def test_a_run_of_version_1_is_shown(tmp_path):
    """Stores and `run.json` as the software before this version wrote them."""
    write_store_v1(tmp_path / "bench")
    (tmp_path / "run.json").write_text(json.dumps(RUN_JSON_V1, indent=2) + "\n")
    for step in STEPS:
        write_log(tmp_path, step)
    run = read_run(tmp_path)
    assert run.steps == STEPS
    (result,) = run.results
    assert (result.summary.total.successes, result.summary.total.trials) == (1, 4)
    assert [one.rate.trials for one in result.summary.steps] == [4, 2]
    page, text = report_of(tmp_path)
    for words_of_it in (
        "4.0 + 8.0", "pick: energies", "place: energies", "pick: went to something else",
        "pick: no proposed pose is feasible", "place: object not held", "paper 0.95", "mug 3",
    ):  # fmt: skip
        assert words_of_it in page
    assert "| mug | all, no look-ahead, least confidence 0 | 4 " in text


def test_a_task_of_four_steps_has_its_own_columns_charts_and_times(tmp_path):
    made_run(tmp_path, steps=TIDY, task="tidy")
    page, text = report_of(tmp_path)
    assert f"| task | setup | episodes | {' | '.join(TIDY)} | total |" in text
    for name in TIDY:
        assert f"{name}: energies" in page
    assert "4.0 + 8.0 + 12.0 + 16.0" in page
    assert "hours on a GPU" not in page
    assert "place bowl: object not held" in page
    files = [path.name for path in (tmp_path / "report_files").iterdir()]
    assert len([name for name in files if name.endswith("-energies.svg")]) == 4
    assert not any(" " in name for name in files)
    for name in files:
        assert f"(report_files/{name})" in text


def test_tasks_with_other_steps_stand_in_tables_of_their_own(tmp_path):
    made_run(tmp_path / "mug")
    made_run(tmp_path / "reach", steps=("pick",), task="reach")
    made_run(tmp_path / "tidy", steps=TIDY, task="tidy")
    _, text = report_of(tmp_path)
    heads = [line for line in text.splitlines() if line.startswith("| task ")]
    assert [head.split(" | ")[3:-3] for head in heads] == [list(STEPS), ["pick"], list(TIDY)]


def test_another_hand_is_shown_and_not_compared_with_the_paper(tmp_path):
    made_run(tmp_path)
    made_run(tmp_path, gripper="simulated-long")
    page, text = report_of(tmp_path)
    assert "| mug | all, hand simulated-long |" in text
    row = next(line for line in text.splitlines() if "hand simulated-long |" in line)
    own = next(line for line in text.splitlines() if line.startswith("| mug | all |"))
    assert ("paper" in row, "paper" in own) == (False, True)
    assert "mug: all unseen, hand simulated-long" in page


def test_other_cameras_are_shown_and_not_compared_with_the_paper(tmp_path):
    made_run(tmp_path)
    made_run(tmp_path, rig="1 camera, 2 grasp views, noise usual")
    _, text = report_of(tmp_path)
    row = next(line for line in text.splitlines() if "1 camera, 2 grasp views" in line)
    own = next(line for line in text.splitlines() if line.startswith("| mug | all |"))
    assert ("paper" in row, "paper" in own) == (False, True)


def test_odd_names_are_escaped_in_pages(tmp_path):
    odd = "<b>cups</b> | [x](y)"
    conditions = replace(CONDITIONS, objects=f"{odd} 0123")
    store = EpisodeStore(tmp_path / "bench", conditions)
    store.add(replace(episode(10_000, done=0), things=(odd,), reason="<script>alert(1)</script>"))
    page, text = report_of(tmp_path)
    assert "<b>cups" not in page
    assert "<script>" not in page
    assert "&lt;b&gt;cups&lt;/b&gt;" in page
    table = next(line for line in text.splitlines() if line.startswith("| mug"))
    assert "<b>" not in table
    assert "cups&lt;/b&gt; \\| \\[x\\](y)" in table


def test_development_seeds_are_said_to_be_such_and_give_way_to_evaluation(tmp_path):
    made_run(tmp_path, seeds=range(2_000, 2_003))
    page, _ = report_of(tmp_path)
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
    made_run(tmp_path, steps=TIDY, task="tidy")
    conditions = replace(CONDITIONS, task="tidy")
    for count, failed in ((1, (10_000, 10_001)), (10, ())):
        store = EpisodeStore(curve_run(tmp_path, count) / "bench", conditions)
        for seed in range(10_000, 10_004):
            done = 1 if seed in failed else 4
            store.add(episode(seed, done=done, task="tidy", steps=TIDY))
    EpisodeStore(curve_run(tmp_path, 20) / "bench", conditions)  # interrupted before an episode
    curve = curve_of(tmp_path)
    assert [(one.demonstrations, one.summary.total.value) for one in curve] == [(1, 0.5), (10, 1.0)]
    page, _ = report_of(tmp_path)
    assert "Learning curve" in page
    drawn = words((tmp_path / "report_files" / "tidy-curve.svg").read_text())
    assert {"total", *TIDY} <= set(drawn)


def test_the_run_itself_is_a_point_of_its_learning_curve(tmp_path):
    made_run(tmp_path)
    content = json.loads((tmp_path / "run.json").read_text())
    content["demonstrations"] = {"folder": "demos", "count": 7}
    (tmp_path / "run.json").write_text(json.dumps(content))
    assert not read_run(tmp_path).curve
    store = EpisodeStore(curve_run(tmp_path, 3) / "bench", CONDITIONS)
    store.add(episode(10_000))
    with_meshes = EpisodeStore(tmp_path / "bench", replace(CONDITIONS, objects="cups 0123"))
    with_meshes.add(episode(10_000, done=1))
    run = read_run(tmp_path)
    assert [point.demonstrations for point in run.curve] == [3, 7]
    own = next(one for one in run.results if one.conditions == CONDITIONS)
    meshes = next(one for one in run.results if one.conditions.objects)
    assert (own.summary.paper is None, meshes.summary.paper is None) == (False, True)
    assert run.curve[1].summary == own.summary


def test_a_run_without_training_notes_has_the_steps_that_were_run(tmp_path):
    store = EpisodeStore(tmp_path / "bench", replace(CONDITIONS, policy="oracle", models=""))
    store.add(episode(10_000))
    assert read_run(tmp_path).steps == STEPS
    (tmp_path / "run.json").write_text('{"steps": [{"name": "pick"}]}')
    with pytest.raises(FileFormatError, match=r"run\.json: steps"):
        read_run(tmp_path)


def test_a_run_that_lacks_a_model_says_which_and_how_to_train_it(tmp_path):
    made_run(tmp_path)
    (tmp_path / "pick").mkdir()
    page = write_report(tmp_path, tmp_path / "report.html").read_text()
    sentence = (
        f"{tmp_path}: has no trained model for the step &#39;place&#39;; train it: handful train "
        f"nowhere --out {tmp_path} --step place"
    )
    assert sentence in page


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(BenchError, match="run the benchmark first"):
        write_report(tmp_path, tmp_path / "report.html")
    (tmp_path / "bench").mkdir()
    with pytest.raises(BenchError, match="no finished episode"):
        write_report(tmp_path, tmp_path / "report.html")

"""Imports point downwards only, steps are data, modules are short, `__init__` only re-exports."""

import ast
from pathlib import Path

import pytest

import handful

SOURCE = Path(handful.__file__).parent

LAYERS = [
    "errors", "_checks", "_cluster", "_compiled", "_names", "_files", "_locks", "_memory",
    "_rigid",
    "_strict_json", "answers", "client", "geometry", "clouds", "render", "demos", "recordings",
    "nn", "models", "sampling", "policy", "checks", "learning", "baselines", "viz", "sim", "bench",
    "evaluation", "apps", "__main__",
]  # fmt: skip

STEP_NAMES = ("pick", "place")

MAY_NAME_STEPS = (
    "demos/_task.py",  # the actions
    "demos/importers/",
    "demos/synthetic/",
    "models/_storage.py",  # models of version 1
    "sim/tasks/",
    "bench/run/_records_v1.py",  # results of version 1
    "bench/report/_paper.py",  # the paper's table
)
"""Data, and readers of old files; ends with / for a whole folder."""

MOST_LINES = 400


def layer_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "handful" and len(parts) > 1 else None


def imported_modules(tree: ast.AST, package: list[str]) -> list[str]:
    """Absolute names of everything the code imports."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return names


def upward_imports(tree: ast.AST, package: list[str], own: str) -> list[str]:
    layers = (layer_of(name) for name in imported_modules(tree, package))
    return sorted(
        {layer for layer in layers if layer in LAYERS and LAYERS.index(layer) > LAYERS.index(own)}
    )


def modules() -> list[Path]:
    return [
        path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem != "__init__"
    ]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_downwards(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    assert parts[0] in LAYERS, f"{parts[0]} has no place in the house yet: add it to LAYERS"
    package = ["handful", *parts[:-1]]
    assert upward_imports(ast.parse(path.read_text()), package, parts[0]) == []


@pytest.mark.parametrize(
    "code", ["from handful.apps import cli", "import handful.demos", "from ..render import x"]
)
def test_the_checker_sees_an_upward_import(code):
    assert upward_imports(ast.parse(code), ["handful", "clouds"], "clouds") != []


def test_the_checker_allows_downward_imports():
    code = "from handful.geometry import x\nfrom ._cloud import y\nimport numpy"
    assert upward_imports(ast.parse(code), ["handful", "clouds"], "clouds") == []


@pytest.mark.parametrize("layer", LAYERS[: LAYERS.index("sim")])
def test_the_checker_lets_nothing_below_the_simulator_import_it(layer):
    for code in ("from handful.sim import x", "import handful.sim._world as w"):
        assert upward_imports(ast.parse(code), ["handful", layer], layer) == ["sim"]


def step_names_in(tree: ast.AST) -> list[int]:
    """Lines with a string literal that is the name of a step of the paper's tasks."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.strip().lower() in STEP_NAMES
    ]


def may_name_steps(name: str) -> bool:
    return any(
        name.startswith(allowed) if allowed.endswith("/") else name == allowed
        for allowed in MAY_NAME_STEPS
    )


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_data_names_steps(path):
    if not may_name_steps(path.relative_to(SOURCE).as_posix()):
        lines = step_names_in(ast.parse(path.read_text()))
        assert lines == [], f"lines {lines} name a step: ask `step.action` instead"


@pytest.mark.parametrize("allowed", MAY_NAME_STEPS)
def test_nothing_is_allowed_to_name_steps_without_need(allowed):
    under = SOURCE / allowed
    files = sorted(under.rglob("*.py")) if under.is_dir() else [under]
    assert any(step_names_in(ast.parse(path.read_text())) for path in files)


@pytest.mark.parametrize(
    "code", ["if step == 'pick': pass", "x = {'a': ['Place']}", 'f(kind="pick")', "f'{a}place'"]
)
def test_the_checker_sees_the_name_of_a_step(code):
    assert step_names_in(ast.parse(code)) == [1]


def test_the_checker_allows_sentences_and_other_names():
    code = "def pick(place): 'Pick and place.'\nx = 'in place'\ny = Action.PICK"
    assert step_names_in(ast.parse(code)) == []
    assert may_name_steps("sim/tasks/_mug.py")
    assert not may_name_steps("sim/_world.py")
    assert not may_name_steps("demos/_task.py.py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_are_short(path):
    assert lines_of(path.read_text()) < MOST_LINES, "split the module by its concepts"


def lines_of(text: str) -> int:
    return len(text.splitlines())


def test_the_checker_counts_lines():
    assert lines_of("a\n\n" * (MOST_LINES // 2)) == MOST_LINES


@pytest.mark.parametrize(
    "path", sorted(SOURCE.glob("*/**/__init__.py")), ids=lambda path: path.parent.name
)
def test_init_only_reexports(path):
    for node in ast.parse(path.read_text()).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        reexport = isinstance(node, ast.ImportFrom) and all(
            alias.asname == alias.name for alias in node.names
        )
        assert docstring or reexport, f"line {node.lineno} is neither docstring nor re-export"


def test_every_top_level_name_exists():
    for name in handful._HOME:
        assert getattr(handful, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = handful.nonsense

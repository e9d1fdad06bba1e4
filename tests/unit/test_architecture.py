"""Imports point downwards only, and a package's `__init__` only re-exports."""

import ast
from pathlib import Path

import pytest

import handful

SOURCE = Path(handful.__file__).parent

LAYERS = [
    "errors", "_files", "_strict_json", "geometry", "clouds", "render", "demos", "nn", "models",
    "sampling", "learning", "baselines", "sim", "bench", "apps", "__main__",
]  # fmt: skip


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

"""`handful` with small models: recipes are made `smaller` when they are asked for.

Everything else is as people type it. `python small_handful.py train ...` is `python -m handful
train ...`; programs of the docs are run after `install`. Nothing of `handful` is imported before a
program imports it: what a program needs it has to import itself.
"""

import importlib.util
import runpy
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

RECIPES = "handful.learning._recipe"
SMALLER = Path(__file__).with_name("small_training.py")


class SmallRecipes(MetaPathFinder):
    """Finds the module of recipes, and lets it make small ones once it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != RECIPES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def load_small(module: Any) -> None:
            load(module)
            full = module.recipe_for
            module.recipe_for = lambda *given, **named: _smaller(full(*given, **named))

        spec.loader.exec_module = load_small
        return spec


def install() -> None:
    """From now on recipes of this process are small."""
    assert RECIPES not in sys.modules
    sys.meta_path.insert(0, SmallRecipes())


def _smaller(recipe: Any) -> Any:
    """`small_training` is loaded by its place: the folder of tests is not among the paths."""
    spec = importlib.util.spec_from_file_location("small_training", SMALLER)
    assert spec is not None
    assert spec.loader is not None
    small_training = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(small_training)
    return small_training.smaller(recipe)


if __name__ == "__main__":
    install()
    runpy.run_module("handful", run_name="__main__", alter_sys=True)

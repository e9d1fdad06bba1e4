"""The package as users get it: built, and installed into an environment of its own.

The environment is empty but for a path to the libraries of this one (PyTorch alone is 200 MB): what
is tested is what the package itself brings, not that its libraries can be downloaded.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def clean_environment(**variables: str) -> dict[str, str]:
    """The variables of this process, without those that lead to sources."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**clean, "COLUMNS": "200", "NO_COLOR": "1", "OMP_NUM_THREADS": "1", **variables}


def run(*command: object, statuses=(0,), cwd: Path | None = None, **variables: str) -> str:
    """What a command says, which must end with one of the statuses."""
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=600, check=False,
        env=clean_environment(**variables), cwd=cwd,
    )  # fmt: skip
    assert done.returncode in statuses, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def build(folder: Path) -> Path:
    """A source distribution, and the wheel that is built from it; returns the wheel."""
    source = folder / "source"
    ignored = shutil.ignore_patterns(".git", ".venv", "out", "runs", ".*_cache", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignored)
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=source)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=unpacked)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, environment: Path) -> Path:
    """Install a wheel into an environment that is made for it; returns its folder of programs."""
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel
    )
    where = run(python, "-c", "import handful; print(handful.__file__)", cwd=environment)
    assert Path(where.strip()).is_relative_to(environment)
    return environment / "bin"

"""Schemathesis calls every address of a service as its OpenAPI page says, and as it does not."""

import subprocess
import sys

import pytest

from service_process import service, small_run

pytest.importorskip("fastapi")
pytest.importorskip("schemathesis")

CONFIG = """
[checks]
# A file is whatever bytes it has: that they are a cloud cannot be said in a schema. Streams and
# steps have names that nobody can guess (404).
positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422", "429", "5xx"]
# A caller who waits a hundredth of a second is told that it was not enough (504).
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "504"]
"""


@pytest.mark.slow(seconds=20)
def test_schemathesis_finds_nothing(tmp_path):
    run = small_run(tmp_path / "run")
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    with service(run) as running:
        done = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", f"{running.url}/openapi.json",
             "--max-examples", "5", "--seed", "1", "--phases", "examples,coverage,fuzzing"],
            cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "generated" in done.stdout

"""The suite for engines, on a real vLLM below Hookline's front end."""

import os
import subprocess
from pathlib import Path

import pytest

from hookline_testing.engine_contract import Case, Outcome
from hookline_testing.vllm_server import MODEL, OFFLINE, VENV

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not VENV, reason="only in `make test-vllm`"),
]


def test_what_vllm_tells_is_so() -> None:
    """All cases pass; what its blocks hold is not told."""
    done = subprocess.run(
        [
            *(str(Path(VENV, "bin", "python")), "-m"),
            *("hookline_faults.contract_engines", "vllm", "--model", MODEL),
        ],
        env={**os.environ, **OFFLINE},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    table = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()]
    found = {line[0]: line[1] for line in table if line[0] in set(Case)}
    untold = {Case.BLOCKS: Outcome.NOT_TOLD}
    assert found == {case: untold.get(case, Outcome.PASSED) for case in Case}

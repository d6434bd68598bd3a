"""A server with everything on, two API servers and two engines, all of them killed.

`make soak ARGS='tests/soak/test_under_fire.py -s --soak-minutes 30'`: for half of the
time processes are killed, and in the other half the memory of each must be level.
"""

import json
import sys
from pathlib import Path

import pytest

from hookline_faults.fire.fire import SETTLING_SECONDS, burn
from hookline_testing.server_process import serving

TRANSFER = {
    "kv_connector": "cpu_offload",
    # Full when the engines are warm: until then they grow.
    "kv_connector_extra_config": {"cpu_bytes_to_use": 8 * 2**20},
}
DRAFTS = {"method": "ngram", "num_speculative_tokens": 3}
SERVE = (
    *("--model", "demo", "--dtype", "float32", "--port", "0", "--threads", "1"),
    *("--data-parallel-size", "2", "--api-server-count", "2"),
    *("--engine-restart", "1000", "--num-kv-blocks", "1024", "--max-num-seqs", "32"),
    *("--kv-transfer-config", json.dumps(TRANSFER)),
    *("--speculative-config", json.dumps(DRAFTS)),
    *("--stat-logger", "request_log", "--heartbeat-seconds", "0.5"),
    *("--log-level", "warning"),
)


@pytest.mark.soak
def test_everything_holds_under_fire(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """
    No request is lost or answered wrongly, no error but those of the docs, the books
    equal the clients', no counter falls, and no process grows.
    """
    minutes = float(request.config.getoption("--soak-minutes", 30.0))
    log = f"request_log.path={tmp_path / 'requests.jsonl'}"
    least = 2 * SETTLING_SECONDS / 60 + 1
    assert minutes >= least, f"the soak takes at least {least:g} minutes"

    with serving(*SERVE, "--stat-logger-option", log) as server:
        fire = burn(server, seconds=minutes * 60, seed=11)

    sys.stdout.write("\n".join(fire.lines()) + "\n")
    assert fire.faults == []
    assert fire.clients.counts["right"] > 10 * minutes

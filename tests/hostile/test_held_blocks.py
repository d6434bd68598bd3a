"""KV that is kept for another engine keeps nobody waiting for minutes.

Eight prompts "for remote decoding" fill the cache, and no engine ever fetches them.
"""

import json

import pytest

from hookline_testing.server_process import serving

pytestmark = pytest.mark.hostile

PRODUCER = {"kv_connector": "p2p", "kv_role": "kv_producer"}
PROMPTS = 8
PROMPT_TOKENS = 2030
"""127 blocks each, 1016 of the cache's 1024."""

ANSWER_SECONDS = 60
"""Without taking back it takes the 480 s of `kv_save_timeout_seconds`."""


def test_held_blocks_go_to_requests_that_wait() -> None:
    """Another client's request is answered once the grace of the oldest is over."""
    with serving(
        *("--executor", "simulated", "--port", "0", "--num-kv-blocks", "1024"),
        *("--kv-transfer-config", json.dumps(PRODUCER)),
    ) as server:
        for index in range(PROMPTS):
            status, answer = server.post(
                "/v1/completions",
                {
                    "model": "demo",
                    "prompt": [3 + index] * PROMPT_TOKENS,
                    "max_tokens": 1,
                    "kv_transfer_params": {"do_remote_decode": True},
                },
            )
            assert status == 200
            assert answer["kv_transfer_params"]["remote_num_tokens"] == 2016
        server.wait_for("hookline_kv_transfer_held_blocks", 1016)

        status, _ = server.post(
            "/v1/completions",
            {"model": "demo", "prompt": [99] * 1000, "max_tokens": 4},
            timeout_seconds=ANSWER_SECONDS,
        )

        assert status == 200
        server.wait_for_any("hookline_kv_transfer_reclaimed_blocks_total")
        assert server.metric("hookline_kv_transfer_reclaimed_blocks_total") >= 54
        assert server.metric("hookline_kv_transfer_expired_blocks_total") == 0
        server.wait_for("hookline_conservation_residue", 0, kind="blocks")

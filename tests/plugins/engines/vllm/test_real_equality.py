"""What a real vLLM generates is the same with and without Hookline."""

from pathlib import Path

import pytest

from hookline_testing.vllm_server import VllmServer, vllm_serving

pytestmark = pytest.mark.vllm
ALONE, TOGETHER, MAX_TOKENS = 8, 8, 48


def generated(server: VllmServer) -> list[list[int]]:
    """Returns the greedy tokens of prompts that come alone, and of some in one step."""
    found: list[list[int]] = []
    prompts = [f"def number_{number}(value):\n    return" for number in range(16)]
    for asked in (*prompts[:ALONE], prompts[-TOGETHER:]):
        status, answer = server.post(
            "/v1/completions",
            {
                "model": "tiny",
                "prompt": asked,
                "max_tokens": MAX_TOKENS,
                "temperature": 0,
                "ignore_eos": True,
                "return_token_ids": True,
            },
        )
        assert status == 200, answer
        found += [choice["token_ids"] for choice in answer["choices"]]
    return found


def test_greedy_tokens_are_equal(tmp_path: Path) -> None:
    """With all tiers and loggers, and without any of them."""
    told = []
    loggers = "prometheus,logging,insight,live"
    for environment in (
        {},
        {"VLLM_PLUGINS": "hookline", "HOOKLINE_STAT_LOGGERS": loggers},
    ):
        with vllm_serving(tmp_path, **environment) as server:
            told.append(generated(server))
            if environment:
                figures = server.figures()
                assert figures["hookline_requests_received_total"] == ALONE + TOGETHER

    plain, attached = told
    assert attached == plain
    assert sum(map(len, plain)) == (ALONE + TOGETHER) * MAX_TOKENS

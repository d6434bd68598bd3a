"""Log-probabilities of prompts over HTTP, with a small model, equal the oracle's."""

from pathlib import Path
from typing import Any

import pytest
import torch
from aiohttp.test_utils import TestClient, TestServer

from hookline.config import CacheConfig, EngineConfig, ModelConfig
from hookline_server.app import create_app
from hookline_server.settings import ServerSettings
from hookline_server.texts.engine import TextEngine
from hookline_testing.oracle import Oracle, make_oracle

PROMPTS = [[5, 6, 7, 250, 6], [40, 41]]


def expected(oracle: Oracle, prompt: list[int]) -> list[dict[int, tuple[float, int]]]:
    """Log-probability and rank of each of the prompt's tokens and the two likeliest."""
    with torch.inference_mode():
        logits: torch.Tensor = oracle.model(torch.tensor([prompt])).logits
    found = []
    for row, token_id in zip(logits[0].log_softmax(-1), prompt[1:], strict=False):
        asked = [token_id, *row.topk(2).indices.tolist()]
        found.append({each: (float(row[each]), _rank(row, each)) for each in asked})
    return found


def _rank(row: torch.Tensor, token_id: int) -> int:
    return 1 + int((row > row[token_id]).sum())


async def test_prompt_logprobs_equal_the_oracle(tmp_path: Path) -> None:
    """Each choice has those of its own prompt, the prompt's own token first."""
    oracle = make_oracle("llama", tmp_path)
    config = EngineConfig(
        model=ModelConfig(model=str(oracle.folder), max_model_len=64),
        cache=CacheConfig(num_kv_blocks=64),
        in_process=True,
    )
    body = {"prompt": PROMPTS, "n": 2, "max_tokens": 1, "prompt_logprobs": 2}
    engine = await TextEngine.start(config)
    try:
        app = create_app(engine, ServerSettings())
        async with TestClient(TestServer(app)) as client:
            response = await client.post("/v1/completions", json=body)
            choices: list[Any] = (await response.json())["choices"]
    finally:
        await engine.close()

    for choice in choices:
        prompt = PROMPTS[choice["index"] // 2]
        first, *entries = choice["prompt_logprobs"]
        assert first is None
        assert [next(iter(each)) for each in entries] == [
            str(one) for one in prompt[1:]
        ]
        for entry, wanted in zip(entries, expected(oracle, prompt), strict=True):
            ranks = {int(key): value["rank"] for key, value in entry.items()}
            assert ranks == {key: rank for key, (_, rank) in wanted.items()}
            logprobs = [value["logprob"] for value in entry.values()]
            assert logprobs == pytest.approx(
                [logprob for logprob, _ in wanted.values()], abs=2e-4
            )

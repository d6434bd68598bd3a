"""Requests without sampling parameters are distributed as those of a real vLLM."""

import json
from collections import Counter
from pathlib import Path

import pytest

from hookline import LLM
from hookline_testing.vllm_server import MODEL, VllmServer, vllm_serving

pytestmark = pytest.mark.vllm
DRAWS, AT_ONCE = 4000, 500
PROMPT = [5, 9, 77, 4, 8, 101, 30]
LEAST = 10
"""Draws of a token that has a cell of its own."""
LIMIT = 5.0
"""Standard deviations of chi-square for two samples."""
FILE = {
    "do_sample": True,
    "temperature": 0.8,
    "top_k": 12,
    "top_p": 0.9,
    "repetition_penalty": 1.3,
    "max_new_tokens": 1,
}


def drawn_by_vllm(server: VllmServer) -> Counter[int]:
    found: Counter[int] = Counter()
    for _ in range(DRAWS // AT_ONCE):
        status, answer = server.post(
            "/v1/completions",
            {
                "model": "tiny",
                "prompt": [PROMPT] * AT_ONCE,
                "max_tokens": 1,
                "return_token_ids": True,
            },
        )
        assert status == 200, answer
        found.update(choice["token_ids"][0] for choice in answer["choices"])
    return found


def score(ours: Counter[int], theirs: Counter[int]) -> float:
    """How many standard deviations the chi-square of two samples is from its mean.

    By the transformation of Wilson and Hilferty (1931); rare tokens share a cell.
    """
    pairs = [(ours[each], theirs[each]) for each in ours.keys() | theirs.keys()]
    rare = [pair for pair in pairs if sum(pair) < LEAST]
    cells = [pair for pair in pairs if sum(pair) >= LEAST]
    cells.append((sum(a for a, _ in rare), sum(b for _, b in rare)))
    chi = sum((a - b) ** 2 / max(a + b, 1) for a, b in cells)
    freedom = len(cells) - 1
    spread = 2 / (9 * freedom)
    return float(((chi / freedom) ** (1 / 3) - (1 - spread)) / spread**0.5)


def test_silent_requests_are_distributed_alike(tmp_path: Path) -> None:
    """With the same files, by chi-square; without the file they would not be."""
    (tmp_path / "generation_config.json").write_text(json.dumps(FILE))
    with vllm_serving(tmp_path, "--generation-config", str(tmp_path)) as server:
        theirs = drawn_by_vllm(server)

    drawn = []
    for source in (str(tmp_path), "vllm"):
        with LLM(
            MODEL,
            generation_config=source,
            override_generation_config={"max_new_tokens": 1},
            dtype="float32",
            max_model_len=64,
        ) as llm:
            outputs = llm.generate([PROMPT] * DRAWS, use_tqdm=False)
        drawn.append(Counter(each.outputs[0].token_ids[0] for each in outputs))

    silent, plain = drawn
    assert score(silent, theirs) < LIMIT
    assert score(plain, theirs) > 10 * LIMIT

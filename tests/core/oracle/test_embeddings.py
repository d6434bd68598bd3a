"""Embeddings equal pooled hidden states of `transformers`, however prompts are run."""

import random
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from hookline import LLM, EngineConfig, PoolingParams, RequestError, SamplingParams
from hookline_testing.oracle import Oracle, make_oracle

CASES: dict[str, tuple[str, dict[str, object]]] = {
    "decoder": ("LAST", {"enable_prefix_caching": True}),
    "chunked": ("MEAN", {"max_num_batched_tokens": 16, "max_num_seqs": 4}),
    "first": ("CLS", {"long_prefill_token_threshold": 5}),
    "modules": ("MEAN", {"kernels": "torch", "enable_prefix_caching": False}),
    "preempted": ("MEAN", {"block_size": 4, "num_kv_blocks": 24, "max_model_len": 96}),
    "overlapped": (
        "LAST",
        {"async_scheduling": True, "max_num_batched_tokens": 31, "max_num_seqs": 8},
    ),
}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return make_oracle("llama", tmp_path_factory.mktemp("llama"))


def prompts() -> list[list[int]]:
    """Prompts of 1 to 60 tokens, two with a common beginning."""
    source = random.Random(3)  # noqa: S311 - a test
    common = [source.randrange(320) for _ in range(40)]
    alone = [[source.randrange(320) for _ in range(n)] for n in (1, 2, 16, 17, 60)]
    return [*alone, [*common, 5, 6, 7], [*common, 8]]


def states(oracle: Oracle, prompt: list[int]) -> npt.NDArray[np.float32]:
    with torch.inference_mode():
        model = oracle.model.get_decoder()
        found = model(torch.tensor([prompt])).last_hidden_state[0]
    array: npt.NDArray[np.float32] = found.numpy()
    return array


def pooled(kind: str, found: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if kind == "MEAN":
        mean: npt.NDArray[np.float32] = found.mean(0)
        return mean
    chosen: npt.NDArray[np.float32] = found[-1] if kind == "LAST" else found[0]
    return chosen


@pytest.mark.parametrize("case", CASES)
def test_embeddings_equal_those_of_transformers(case: str, llama: Oracle) -> None:
    """The same twice, beside requests that generate, and cached where it is allowed."""
    kind, options = CASES[case]
    config = {"pooling_type": kind, "normalize": False}
    folder, given = str(llama.folder), prompts()
    made = EngineConfig.from_options(
        model=folder,
        dtype="float32",
        convert="embed",
        pooler_config=config,
        **options,
    )
    with LLM.from_config(made) as llm:
        for _ in range(2):
            found = llm.embed(given, use_tqdm=False)
            for prompt, output in zip(given, found, strict=True):
                wanted = pooled(kind, states(llama, prompt))
                assert np.abs(output.outputs.data[0] - wanted).max() < 1e-5
        has_cached = any(each.cached_tokens for each in found)
        greedy = SamplingParams(temperature=0.0, max_tokens=8)
        [text] = llm.generate(given[4], greedy, use_tqdm=False)

    assert has_cached == (kind == "LAST")
    assert text.outputs[0].token_ids == llama.greedy(given[4], 8)


def test_vectors_are_cut_scaled_and_given_per_token(
    llama: Oracle, tmp_path: Path
) -> None:
    """A folder of Sentence Transformers sets the pooling; tasks and lengths differ."""
    shutil.copytree(llama.folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "modules.json").write_text(
        '[{"type": "sentence_transformers.models.Transformer"},'
        ' {"type": "sentence_transformers.models.Pooling"},'
        ' {"type": "sentence_transformers.models.Normalize"}]'
    )
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(
        '{"word_embedding_dimension": 64, "pooling_mode_mean_tokens": true,'
        ' "pooling_mode_lasttoken": false, "include_prompt": true}'
    )
    prompt = prompts()[3]
    wanted = states(llama, prompt)
    params = [
        PoolingParams(),
        PoolingParams(dimensions=8),
        PoolingParams(task="token_embed", normalize=False),
    ]

    with LLM(
        str(tmp_path),
        pooler_config={"is_matryoshka": True},
        dtype="float32",
        max_num_batched_tokens=8,
        max_num_seqs=4,
    ) as llm:
        whole, cut, each = llm.embed([prompt] * 3, params, use_tqdm=False)
        with pytest.raises(RequestError, match="only embeds"):
            llm.generate(prompt, use_tqdm=False)

    mean = wanted.mean(0)
    scaled, short = mean / np.linalg.norm(mean), mean[:8] / np.linalg.norm(mean[:8])
    np.testing.assert_allclose(whole.outputs.data[0], scaled, atol=1e-5)
    np.testing.assert_allclose(cut.outputs.embedding, short, atol=1e-5)
    np.testing.assert_allclose(each.outputs.data, wanted, atol=1e-5)

"""Requests without sampling parameters have the distribution of the model's file."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from transformers import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from hookline import LLM
from hookline_testing.oracle import Oracle

Score = Callable[[npt.NDArray[np.int64], torch.Tensor], float]

DRAWS = 4000
LIMIT = 4.0
"""Standard deviations of chi-square; the seed is fixed."""
FILE = {
    "do_sample": True,
    "temperature": 0.8,
    "top_k": 12,
    "top_p": 0.9,
    "repetition_penalty": 1.3,
    "max_new_tokens": 1,
}
PROMPT = [5, 9, 77, 4, 8, 101, 30]


def recommended(oracle: Oracle) -> torch.Tensor:
    """The next token's probabilities by `transformers`' processors, in its order."""
    ids = cast("torch.LongTensor", torch.tensor([PROMPT]))
    with torch.inference_mode():
        logits = oracle.model(ids).logits[:, -1]
    processors = LogitsProcessorList(
        [
            RepetitionPenaltyLogitsProcessor(1.3),
            TemperatureLogitsWarper(0.8),
            TopKLogitsWarper(12),
            TopPLogitsWarper(0.9),
        ]
    )
    scores = processors(ids, cast("torch.FloatTensor", logits))
    return scores[0].double().softmax(-1)


def test_silent_requests_have_the_files_distribution(
    llama: Oracle, tmp_path: Path, score: Score
) -> None:
    """By chi-square; that of a model without the file is another one."""
    folder = shutil.copytree(llama.folder, tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps(FILE))

    with LLM(str(folder), max_model_len=64, max_num_seqs=256) as llm:
        outputs = llm.generate([PROMPT] * DRAWS, use_tqdm=False)

    tokens = [each.outputs[0].token_ids[0] for each in outputs]
    counts = np.bincount(tokens, minlength=llama.model.config.vocab_size)
    expected = recommended(llama)
    assert counts.sum() == DRAWS
    assert not counts[(expected == 0).numpy()].any()
    assert score(counts, expected) < LIMIT
    assert score(counts, llama.probabilities(PROMPT)) > 10 * LIMIT

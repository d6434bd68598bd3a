"""One side of an offline comparison; runs in that side's own virtual environment.

usage: python compare_offline.py ENGINE WORK_JSON RESULT_FILE

Imports none of Hookline's tools, which a peer's environment lacks. Prompts are random
token ids, the same for every engine; generation is greedy and ignores end-of-text.
Every iteration has new prompts, so that prefix caches do not help. Before the clock
starts, the model is loaded and as many requests as in an iteration generate a few
tokens each, so that all memory is in use.
"""

import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

KV_CACHE_BYTES = 2 * 1024**3
"""Size of the KV cache of every engine with such an option."""
TRANSFORMERS_BATCH = 128

LOOKUP = {"method": "ngram", "prompt_lookup_max": 5, "prompt_lookup_min": 2}

Generate = Callable[[list[list[int]], int], int]
"""Maps prompts and the number of output tokens to the number generated."""


def prompt_lookup(work: dict[str, Any]) -> dict[str, Any] | None:
    """Configuration of speculation for Hookline and vLLM."""
    count = work["num_drafts"]
    return LOOKUP | {"num_speculative_tokens": count} if count else None


def hookline(work: dict[str, Any]) -> Generate:
    from hookline import LLM, EngineConfig, ModelConfig, SamplingParams  # noqa: PLC0415
    from hookline.config import CacheConfig, Dtype, SpeculativeConfig  # noqa: PLC0415
    from hookline.worker.page_warmer import wait_until_warm  # noqa: PLC0415

    cache = CacheConfig(
        kv_cache_memory=KV_CACHE_BYTES,
        kv_cache_prefault=KV_CACHE_BYTES,  # vLLM writes its whole cache at startup
        enable_prefix_caching=work["has_prefix_cache"],
    )
    model = ModelConfig(model=work["model"], dtype=Dtype(work["dtype"]))
    drafts = prompt_lookup(work)
    speculative = None if drafts is None else SpeculativeConfig.from_mapping(drafts)
    llm = LLM.from_config(
        EngineConfig(model=model, cache=cache, speculative=speculative)
    )
    wait_until_warm()

    def generate(prompts: list[list[int]], num_tokens: int) -> int:
        params = SamplingParams(temperature=0.0, max_tokens=num_tokens, ignore_eos=True)
        outputs = llm.generate(prompts, params, use_tqdm=False)
        return sum(len(output.outputs[0].token_ids) for output in outputs)

    return generate


def vllm(work: dict[str, Any]) -> Generate:
    from vllm import LLM, SamplingParams  # type: ignore[import-not-found]  # noqa: PLC0415

    llm = LLM(
        model=work["model"],
        dtype=work["dtype"],
        speculative_config=prompt_lookup(work),
    )

    def generate(prompts: list[list[int]], num_tokens: int) -> int:
        params = SamplingParams(temperature=0.0, max_tokens=num_tokens, ignore_eos=True)
        asked = [{"prompt_token_ids": prompt} for prompt in prompts]
        outputs = llm.generate(asked, params, use_tqdm=False)
        return sum(len(output.outputs[0].token_ids) for output in outputs)

    return generate


def transformers(work: dict[str, Any]) -> Generate:
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    dtype = getattr(torch, work["dtype"])
    model = AutoModelForCausalLM.from_pretrained(work["model"], dtype=dtype)
    model.train(mode=False)

    def batch(prompts: torch.Tensor, num_tokens: int) -> int:
        output = model.generate(  # type: ignore[misc]
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=False,
            min_new_tokens=num_tokens,
            max_new_tokens=num_tokens,
            prompt_lookup_num_tokens=work["num_drafts"] or None,
        )
        return int(output[:, prompts.shape[1] :].numel())

    def generate(prompts: list[list[int]], num_tokens: int) -> int:
        batches = torch.split(torch.tensor(prompts), TRANSFORMERS_BATCH)
        with torch.inference_mode():
            return sum(batch(each, num_tokens) for each in batches)

    return generate


ENGINES: dict[str, Callable[[dict[str, Any]], Generate]] = {
    "hookline": hookline,
    "vllm": vllm,
    "transformers": transformers,
}


def prompts_of(work: dict[str, Any], seed: int) -> list[list[int]]:
    """Returns the prompts of one iteration."""
    source = random.Random(seed)  # noqa: S311 - the same for all

    def ids(count: int) -> list[int]:
        return [source.randrange(3, 8000) for _ in range(count)]

    prefix = ids(work["prefix_tokens"])
    count = work["input_tokens"]
    if work["repeats"]:
        return [prefix + 2 * ids(count // 2) for _ in range(work["requests"])]
    return [prefix + ids(count) for _ in range(work["requests"])]


def measure(generate: Generate, work: dict[str, Any]) -> dict[str, float]:
    """Runs the iterations and writes the median."""
    num_tokens = work["output_tokens"]
    generate(prompts_of(work, seed=-1), min(num_tokens, 16))
    times = []
    for seed in range(work["iterations"]):
        prompts = prompts_of(work, seed)
        start = time.perf_counter()
        generated = generate(prompts, num_tokens)
        times.append(time.perf_counter() - start)
        if generated != len(prompts) * num_tokens:
            sys.exit(f"{generated} tokens generated, not {len(prompts) * num_tokens}")
    seconds = statistics.median(times)
    output = work["requests"] * num_tokens
    prompt = work["requests"] * (work["input_tokens"] + work["prefix_tokens"])
    return {
        "output tok/s": output / seconds,
        "total tok/s": (prompt + output) / seconds,
        "ms": seconds * 1000,
    }


if __name__ == "__main__":
    engine, text, file = sys.argv[1:]
    given = json.loads(text)
    Path(file).write_text(json.dumps(measure(ENGINES[engine](given), given)))

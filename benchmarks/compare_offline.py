"""One side of an offline comparison; runs in that side's own virtual environment.

usage: python compare_offline.py ENGINE WORK_JSON RESULT_FILE

Knows nothing of Hookline's tools, because a peer's environment has none of them.
Prompts are random token ids, the same for every engine; generation is greedy, and goes
past the end of the text. Every iteration has prompts of its own, so that none is found
in a cache. The model is loaded before the clock starts, and as many requests as one
iteration has are served, each with a few tokens, so that all memory is in use.
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
"""For every engine that can be told."""
TRANSFORMERS_BATCH = 128

LOOKUP = {"method": "ngram", "prompt_lookup_max": 5, "prompt_lookup_min": 2}

Generate = Callable[[list[list[int]], int], int]
"""From prompts and the tokens wanted of each to the tokens that came."""


def prompt_lookup(work: dict[str, Any]) -> dict[str, Any] | None:
    """Speculation as Hookline and vLLM both read it."""
    count = work["num_drafts"]
    return LOOKUP | {"num_speculative_tokens": count} if count else None


def hookline(work: dict[str, Any]) -> Generate:
    from hookline import LLM, EngineConfig, ModelConfig, SamplingParams  # noqa: PLC0415
    from hookline.config import CacheConfig, Dtype, SpeculativeConfig  # noqa: PLC0415
    from hookline.worker.page_warmer import wait_until_warm  # noqa: PLC0415

    cache = CacheConfig(
        kv_cache_memory=KV_CACHE_BYTES,
        kv_cache_prefault=KV_CACHE_BYTES,  # vLLM writes all of its own at its start
        enable_prefix_caching=work["has_prefix_cache"],
    )
    model = ModelConfig(model=work["model"], dtype=Dtype(work["dtype"]))
    drafts = prompt_lookup(work)
    speculative = None if drafts is None else SpeculativeConfig.from_mapping(drafts)
    llm = LLM.from_config(
        EngineConfig(model=model, cache=cache, speculative=speculative)
    )
    wait_until_warm()

    def generate(prompts: list[list[int]], wanted: int) -> int:
        params = SamplingParams(temperature=0.0, max_tokens=wanted, ignore_eos=True)
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

    def generate(prompts: list[list[int]], wanted: int) -> int:
        params = SamplingParams(temperature=0.0, max_tokens=wanted, ignore_eos=True)
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

    def batch(prompts: torch.Tensor, wanted: int) -> int:
        output = model.generate(  # type: ignore[misc]
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=False,
            min_new_tokens=wanted,
            max_new_tokens=wanted,
            prompt_lookup_num_tokens=work["num_drafts"] or None,
        )
        return int(output[:, prompts.shape[1] :].numel())

    def generate(prompts: list[list[int]], wanted: int) -> int:
        batches = torch.split(torch.tensor(prompts), TRANSFORMERS_BATCH)
        with torch.inference_mode():
            return sum(batch(each, wanted) for each in batches)

    return generate


ENGINES: dict[str, Callable[[dict[str, Any]], Generate]] = {
    "hookline": hookline,
    "vllm": vllm,
    "transformers": transformers,
}


def prompts_of(work: dict[str, Any], seed: int) -> list[list[int]]:
    """The prompts of one iteration."""
    source = random.Random(seed)  # noqa: S311 - the same for all

    def ids(count: int) -> list[int]:
        return [source.randrange(3, 8000) for _ in range(count)]

    prefix = ids(work["prefix_tokens"])
    count = work["input_tokens"]
    if work["repeats"]:
        return [prefix + 2 * ids(count // 2) for _ in range(work["requests"])]
    return [prefix + ids(count) for _ in range(work["requests"])]


def measure(generate: Generate, work: dict[str, Any]) -> dict[str, float]:
    """The median iteration."""
    wanted = work["output_tokens"]
    generate(prompts_of(work, seed=-1), min(wanted, 16))
    times = []
    for seed in range(work["iterations"]):
        prompts = prompts_of(work, seed)
        start = time.perf_counter()
        generated = generate(prompts, wanted)
        times.append(time.perf_counter() - start)
        if generated != len(prompts) * wanted:
            sys.exit(f"{generated} tokens came rather than {len(prompts) * wanted}")
    seconds = statistics.median(times)
    output = work["requests"] * wanted
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

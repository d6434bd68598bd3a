"""Measures what structured outputs cost: their masks' share of a step, and throughput.

usage: python benchmarks/structured_outputs.py [--model llama-90m | demo | FOLDER]
           [--requests 64] [--tokens 128] [--pairs 5] [--schemas 1 64]

One engine generates with a JSON schema for each request and without, in turns
(A B B A …), greedily and ignoring end-of-text. The schemas' instances are longer than
the outputs, so that both have the same number of tokens. Grammars are compiled before.

Prints, for each number of different schemas, the time that filling and applying masks
took, divided by the time of its turns, and the throughput with schemas over that
without: median, minimum and maximum of the pairs.
"""

import argparse
import random
import statistics
import time
from pathlib import Path

from bench_folders import own_folder
from bench_models import NAMES, write_models
from compare_offline import schemas_of

from hookline import LLM, SamplingParams, StructuredOutputsParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig

_COSTS = ("mask_fill_seconds", "mask_apply_seconds")


def prompts_of(options: argparse.Namespace) -> list[list[int]]:
    source = random.Random(0)  # noqa: S311 - the same prompts in each turn
    return [
        [source.randrange(3, 1000) for _ in range(options.input_tokens)]
        for _ in range(options.requests)
    ]


def params_of(options: argparse.Namespace, schema: str | None) -> SamplingParams:
    return SamplingParams(
        temperature=0.0,
        max_tokens=options.tokens,
        ignore_eos=schema is None,  # no output completes a schema
        speculation=options.jump_forward,
        structured_outputs=StructuredOutputsParams(json=schema) if schema else None,
    )


def mask_seconds(llm: LLM) -> list[float]:
    """Returns the time of filling masks so far, and that of applying them."""
    found = {}
    for family in llm.get_metrics():
        for cost in _COSTS:
            if family.name == f"hookline_structured_output_{cost}":
                [sample] = family.samples
                assert isinstance(sample.value, float | int)
                found[cost] = float(sample.value)
    return [found[cost] for cost in _COSTS]


def turn(llm: LLM, prompts: list[list[int]], params: list[SamplingParams]) -> float:
    llm.reset_prefix_cache()
    start = time.perf_counter()
    outputs = llm.generate(prompts, params, use_tqdm=False)
    seconds = time.perf_counter() - start
    assert all(
        len(each.outputs[0].token_ids) == params[0].max_tokens for each in outputs
    )
    return seconds


def compare(llm: LLM, number: int, options: argparse.Namespace) -> None:
    prompts = prompts_of(options)
    schemas = schemas_of({"output_tokens": options.tokens, "schemas": number}, 0)
    structured = [params_of(options, each) for each in schemas]
    structured *= options.requests // number
    free = [params_of(options, None)] * options.requests
    for params in (structured, free):
        turn(llm, prompts, params)
    rows, shares = [], []
    for pair in range(options.pairs):
        seconds = {}
        for is_structured in (True, False) if pair % 2 == 0 else (False, True):
            before = mask_seconds(llm)
            taken = turn(llm, prompts, structured if is_structured else free)
            seconds[is_structured] = taken
            if is_structured:
                costs = zip(before, mask_seconds(llm), strict=True)
                shares.append([(after - start) / taken for start, after in costs])
        rows.append((seconds[True], seconds[False]))
    report(number, rows, shares, options)


def report(
    number: int,
    rows: list[tuple[float, float]],
    shares: list[list[float]],
    options: argparse.Namespace,
) -> None:
    ratios = sorted(free / structured for structured, free in rows)
    tokens = options.requests * options.tokens
    speeds = [tokens / statistics.median(each) for each in zip(*rows, strict=True)]
    fill, apply = (statistics.median(each) for each in zip(*shares, strict=True))
    whole = sorted(map(sum, shares))
    print(
        f"{options.requests} requests, {number} schema(s): masks take "
        f"{statistics.median(whole):.2%} (filling {fill:.2%}, applying {apply:.2%}; "
        f"{whole[0]:.2%} to {whole[-1]:.2%}); {speeds[0]:.0f} tokens/s with, "
        f"{speeds[1]:.0f} without: {statistics.median(ratios):.3f} "
        f"({ratios[0]:.3f} to {ratios[-1]:.3f}, {len(ratios)} pairs)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="llama-90m")
    folder = own_folder("models")
    parser.add_argument("--models-folder", type=Path, default=folder)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--input-tokens", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--schemas", type=int, nargs="+", default=[1, 64])
    parser.add_argument(
        "--jump-forward", action="store_true", help="draft what grammars force"
    )
    options = parser.parse_args()
    model = options.model
    if model in NAMES:
        write_models(options.models_folder, (model,))
        model = str(options.models_folder / model)
    config = EngineConfig(
        model=ModelConfig(model=model, max_model_len=2048),
        cache=CacheConfig(kv_cache_memory=2**30),
    )
    print(f"{options.model}, {options.input_tokens} + {options.tokens} tokens")
    with LLM.from_config(config) as llm:
        for number in options.schemas:
            compare(llm, number, options)


if __name__ == "__main__":
    main()

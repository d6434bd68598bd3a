"""Compares each adapted part of a model with the original of `transformers`.

usage: python benchmarks/layers.py [--model llama-90m] [--tokens 1 8 32 128 256]
                                   [--pairs 15] [--threads 2]

Runs each part of a layer as loaded and as adapted, A B A B …; prints the median of each
in microseconds, and the median ratio of the pairs. Calls rotate through the layers, so
that weights come from memory as in a model. The last rows are the whole model without
attention, and sampling.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from bench_folders import own_folder
from bench_models import NAMES, write_models
from transformers import PreTrainedModel

from hookline.config import ModelConfig
from hookline_description.describing import describe
from hookline_kernels.modules.adapting import adapt
from hookline_kernels.runtime.allocator import keep_freed_memory
from hookline_kernels.sampling import REFERENCE_SAMPLING, choose_sampling
from hookline_models.checkpoints.loading import load_model
from hookline_models.forwards.attention import AttentionSlot

Call = Callable[[], object]
Case = tuple[str, list[Call], list[Call]]
"""A name, and the same work for several layers, before and after adapting."""


def load(folder: Path) -> PreTrainedModel:
    config = ModelConfig(model=str(folder))
    model = load_model(config, describe(config), 4096)
    AttentionSlot.install(model).attend = lambda _layer, query, *_, **__: query
    return model


def parts_of(model: Any, tokens: int) -> dict[str, list[Call]]:
    """Returns each part of all layers with its inputs, and the whole model."""
    torch.manual_seed(tokens)
    config = model.config
    values = torch.randn(1, tokens, config.hidden_size).to(model.dtype)
    positions = torch.arange(tokens)[None]
    angles = model.model.rotary_emb(values, positions)
    ids = torch.randint(3, config.vocab_size, (1, tokens))
    layers = model.model.layers

    def project(attention: Any) -> Call:
        return lambda: [getattr(attention, f"{key}_proj")(values) for key in "qkv"]

    return {
        "norm": [partial(layer.input_layernorm, values) for layer in layers],
        "q, k, v": [project(layer.self_attn) for layer in layers],
        "attention layer": [partial(one.self_attn, values, angles) for one in layers],
        "feed-forward layer": [partial(layer.mlp, values) for layer in layers],
        "output layer": [partial(model.lm_head, values)],
        "model": [
            partial(model, input_ids=ids, position_ids=positions, use_cache=False)
        ],
    }


def layer_cases(
    before: PreTrainedModel, after: PreTrainedModel, tokens: int
) -> Iterator[Case]:
    plain, adapted = (parts_of(model, tokens) for model in (before, after))
    for name in plain:
        yield name, plain[name], adapted[name]


def sampling_cases(model: PreTrainedModel, rows: int) -> Iterator[Case]:
    logits = torch.randn(rows, model.config.vocab_size).to(model.dtype)
    others = (torch.ones(rows), torch.rand(rows, dtype=torch.float64))
    for name, task in (("greedy", "argmax"), ("temperature", "draw")):
        arguments = (logits, *others) if task == "draw" else (logits,)
        plain, compiled = (
            partial(getattr(chosen, task), *arguments)
            for chosen in (REFERENCE_SAMPLING, choose_sampling(model.dtype))
        )
        yield name, [plain], [compiled]


def microseconds(calls: list[Call]) -> float:
    """Times calls; returns microseconds per call."""
    start = time.perf_counter()
    for call in calls:
        call()
    return (time.perf_counter() - start) / len(calls) * 1e6


def report(case: Case, tokens: int, pairs: int) -> None:
    name, *sides = case
    for calls in sides:
        microseconds(calls)
    runs = [[microseconds(calls) for calls in sides] for _ in range(pairs)]
    medians = [statistics.median(side) for side in zip(*runs, strict=True)]
    ratio = statistics.median(first / second for first, second in runs)
    print(
        f"{name:20s} {tokens:6d} {medians[0]:12.1f} {medians[1]:12.1f} {ratio:8.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=NAMES, default="llama-90m")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 8, 32, 128, 256])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    folder = own_folder("models")
    keep_freed_memory()
    if options.threads:
        torch.set_num_threads(options.threads)
    write_models(folder, (options.model,))
    before, after = (load(folder / options.model) for _ in range(2))
    start = time.perf_counter()
    done = adapt(after)
    print(f"{done}, {time.perf_counter() - start:.2f} s")
    print(f"{options.model}, {torch.get_num_threads()} threads, load {os.getloadavg()}")
    print(f"{'part':20s} {'tokens':>6s} {'before':>12s} {'after':>12s} {'ratio':>8s}")
    with torch.inference_mode():
        for tokens in options.tokens:
            for case in layer_cases(before, after, tokens):
                report(case, tokens, options.pairs)
            for case in sampling_cases(after, tokens):
                report(case, tokens, options.pairs)
    print(f"load {os.getloadavg()}")


if __name__ == "__main__":
    main()

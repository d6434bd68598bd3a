"""Measures what quantized weights cost in quality, and gain in speed.

usage: python benchmarks/quantization.py quality [--model demo] [--tokens 8192]
       python benchmarks/quantization.py speed [--model qwen3-0.6b] [--pairs 3]
           [--work 1:32:64 8:32:64 1:512:1 1:2048:1 …]

quality   perplexity of source files of Python's standard library, and the mean KL
          divergence of the next token's distribution from that of bfloat16
speed     output tokens/s of `LLM`, or input tokens/s if there is one output token, and
          processor time for each, which other load disturbs less. WORK is
          requests:input:output tokens. One process has an engine for each kind of
          weights; each runs once per round, in changing order.
"""

import argparse
import random
import statistics
import sysconfig
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from bench_folders import own_folder
from bench_models import NAMES, write_models

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig, Quantization
from hookline.model_description import find_folder
from hookline.tokenizer import Tokenizer
from hookline_description.describing import describe
from hookline_models.checkpoints.loading import load_model

KINDS: tuple[Quantization | None, ...] = (
    None,
    Quantization.W8A16,
    Quantization.W8A8,
    Quantization.W4A16,
    Quantization.W4A8,
)
WINDOW = 512
WORK = ["1:32:64", "8:32:64", "1:512:1", "1:2048:1"]
"""Decodes of one request and of eight, and prompts."""


def windows(model: str, count: int) -> torch.Tensor:
    """Returns [n, 512] tokens of the standard library's files."""
    tokenizer = Tokenizer.load(find_folder(model))
    tokens: list[int] = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        tokens += tokenizer.encode(path.read_text("utf-8"))[: 2 * WINDOW]
        if len(tokens) >= count:
            break
    whole = len(tokens[:count]) // WINDOW * WINDOW
    return torch.tensor(tokens[:whole]).view(-1, WINDOW)


@torch.inference_mode()
def log_probabilities(
    model: str, kind: Quantization | None, tokens: torch.Tensor, *, may_compile: bool
) -> Iterator[torch.Tensor]:
    """Yields each window's log-probabilities, [511, vocabulary]."""
    config = ModelConfig(model=model, quantization=kind)
    loaded = load_model(
        config, describe(config), WINDOW, attention="sdpa", may_compile=may_compile
    )
    for window in tokens:
        logits = loaded(window[None, :-1], use_cache=False).logits[0]
        yield logits.float().log_softmax(-1)


def measure_quality(
    model: str, count: int, *, may_compile: bool = True
) -> dict[str, tuple[float, float]]:
    """Returns perplexity and KL divergence from bfloat16 by kind of weights.

    Quantized layers use kernels, or torch if they may not.
    """
    tokens = windows(model, count)
    run = partial(log_probabilities, model, tokens=tokens, may_compile=may_compile)
    plain = list(run(None))
    found: dict[str, tuple[float, float]] = {}
    for kind in KINDS:
        losses, divergences = [], []
        other = plain if kind is None else run(kind)
        for window, expected, seen in zip(tokens, plain, other, strict=True):
            losses.append(-seen.gather(1, window[1:, None]).mean().item())
            difference = (expected.exp() * (expected - seen)).sum(-1)
            divergences.append(difference.mean().item())
        perplexity = float(torch.tensor(losses).mean().exp())
        found[str(kind or "plain")] = (perplexity, statistics.fmean(divergences))
    return found


def measure_speed(folder: str, works: list[str], pairs: int) -> None:
    with ExitStack() as stack:
        engines = {}
        for kind in KINDS:
            config = EngineConfig(
                model=ModelConfig(model=folder, quantization=kind),
                cache=CacheConfig(num_kv_blocks=1024, kv_cache_prefault=0),
            )
            engines[str(kind or "plain")] = stack.enter_context(LLM.from_config(config))
        for work in works:
            requests, length, output = (int(part) for part in work.split(":"))
            found: dict[str, list[Run]] = {name: [] for name in engines}
            for turn in range(pairs + 1):  # the first warms up
                names = list(engines)[:: 1 if turn % 2 else -1]
                for name in names:
                    own = run(engines[name], requests, length, output)
                    found[name] += [own] if turn else []
            report(work, found)


class Run(NamedTuple):
    """Tokens per second, and milliseconds of processor time for each."""

    rate: float
    processor: float


def run(llm: LLM, requests: int, length: int, output: int) -> Run:
    source = random.Random(0)  # noqa: S311 - the same prompts for all
    prompts = [
        [source.randrange(3, 8000) for _ in range(length)] for _ in range(requests)
    ]
    params = SamplingParams(temperature=0.0, max_tokens=output, ignore_eos=True)
    llm.reset_prefix_cache()
    start, before = time.perf_counter(), time.process_time()
    llm.generate(prompts, params, use_tqdm=False)
    seconds, processor = time.perf_counter() - start, time.process_time() - before
    tokens = requests * (output if output > 1 else length)
    return Run(tokens / seconds, 1000 * processor / tokens)


def report(work: str, found: dict[str, list[Run]]) -> None:
    for name, own in found.items():
        pairs = list(zip(own, found["plain"], strict=True))
        ratios = [a.rate / b.rate for a, b in pairs]
        print(
            f"{work:12} {name:8} "
            f"{statistics.median(each.rate for each in own):9.1f} tok/s  "
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            f"  processor {statistics.median(each.processor for each in own):.3f} ms, "
            f"{statistics.median(a.processor / b.processor for a, b in pairs):.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["quality", "speed"])
    parser.add_argument("--model")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--work", nargs="+", default=WORK)
    options = parser.parse_args()
    if options.part == "quality":
        found = measure_quality(options.model or "demo", options.tokens)
        for name, (perplexity, divergence) in found.items():
            print(f"{name:8} perplexity {perplexity:8.3f}  KL {divergence:.5f}")
        return
    model = options.model or "qwen3-0.6b"
    folder = own_folder("models")
    if model in NAMES:
        write_models(folder, (model,))
        model = str(folder / model)
    measure_speed(model, options.work, options.pairs)


if __name__ == "__main__":
    main()

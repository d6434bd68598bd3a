"""Measures the speedup of speculative decoding: the same prompts with and without it.

usage: python benchmarks/speculation.py [--model demo] [--pairs 7] [--tokens 256]
           [--batch 1 …] [--kinds copy edit outline fresh drawn] [--config JSON …]

copy      a source file and its beginning again, so that the output copies the rest
edit      likewise, but with one parameter renamed in the repetition
outline   a source file and the beginning of its summary: signatures and the first lines
          of docstrings
fresh     beginnings of functions whose rest is not in the prompt
drawn     the same at temperature 1, with seeds: the output seldom repeats the prompt

All but the last are greedy. One process has an engine without drafts and one per
configuration, in the checkpoint's dtype; each runs once per round, in changing order. A
row has the medians, the ratio of the times of each pair (median, minimum, maximum) and
the drafts' acceptance. Engines that choose their number of drafts keep what they
learned from row to row.
"""

import argparse
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ModelConfig,
)
from hookline.outputs import RequestOutput

SOURCES = Path(__file__).parents[1] / "core" / "src" / "hookline"
KINDS = ("copy", "edit", "outline", "fresh", "drawn")
COPIED = ("cost.py", "clock.py", "scheduler/queue.py", "kv_cache/hashing.py")
CONFIG = '{"method": "ngram", "num_speculative_tokens": 4}'


@dataclass(frozen=True, slots=True)
class Run:
    """One batch of prompts."""

    seconds: float
    outputs: list[RequestOutput]

    @property
    def tokens(self) -> int:
        return sum(each.outputs[0].output_tokens for each in self.outputs)


def prompts(kind: str, batch: int) -> list[str]:
    texts = [(SOURCES / name).read_text("utf-8")[:2400] for name in COPIED]
    if kind == "copy":
        made = [f"{text}\n\n# The same file again:\n{text[:400]}" for text in texts]
    elif kind == "edit":
        made = [edited(text) for text in texts]
    elif kind == "outline":
        made = [f"{text}\n\n# In short:\n{outline(text)}" for text in texts]
    else:
        made = [f"def {name}(values):\n" for name in ("mean", "merge", "scan", "pad")]
    return [made[index % len(made)] for index in range(batch)]


def edited(text: str) -> str:
    """Returns a file and its beginning, with the likeliest parameter name replaced."""
    names = Counter(re.findall(r"\b(?!self|None)([a-z_]{4,})\b(?=[:,)])", text))
    [(name, _)] = names.most_common(1)
    again = re.sub(rf"\b{name}\b", "renamed", text[:600])
    return f"{text}\n\n# The same with `{name}` called `renamed`:\n{again}"


def outline(text: str) -> str:
    """Returns the first half of a file's signatures, with docstring summaries."""
    found = re.findall(
        r'^( *(?:def|class) [^\n]+)\n(?:[^\n]*\n)*?( *"""[^\n]+)', text, re.MULTILINE
    )
    return "\n".join(f"{head}\n{line}" for head, line in found[: -(-len(found) // 2)])


def run(llm: LLM, kind: str, texts: list[str], tokens: int) -> Run:
    params = SamplingParams(
        temperature=1.0 if kind == "drawn" else 0.0,
        seed=3,
        max_tokens=tokens,
        ignore_eos=True,
    )
    llm.reset_prefix_cache()
    llm.generate(texts, SamplingParams(temperature=0.0, max_tokens=1), use_tqdm=False)
    began = time.perf_counter()
    outputs = llm.generate(
        texts, params, use_tqdm=False
    )  # prompts are cached: mostly decoding
    return Run(time.perf_counter() - began, outputs)


def table_row(name: str, kind: str, batch: int, pairs: list[tuple[Run, Run]]) -> str:
    ratios = [off.seconds / on.seconds for off, on in pairs]
    rates = [
        statistics.median(each.tokens / each.seconds for each in side)
        for side in zip(*pairs, strict=True)
    ]
    done = [each.outputs[0] for each in pairs[0][1].outputs]
    drafted = sum(each.draft_tokens for each in done)
    accepted = sum(each.accepted_tokens for each in done)
    same = all(
        off.outputs[at].outputs[0].token_ids == on.outputs[at].outputs[0].token_ids
        for off, on in pairs
        for at in range(batch)
    )
    return (
        f"| {name} | {kind} | {batch} | {rates[0]:.1f} | {rates[1]:.1f} | "
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f} – {max(ratios):.2f}) | "
        f"{drafted} | {accepted / drafted if drafted else 0:.0%} | "
        f"{'equal' if same else 'other texts'} |"
    )


def measure(
    config: EngineConfig,
    chosen: list[Mapping[str, object]],
    options: argparse.Namespace,
) -> None:
    print(
        "| drafts | prompts | batch | tokens/s without | with | times as fast |", end=""
    )
    print(" draft tokens | accepted | texts |\n|---|---|---|---|---|---|---|---|---|")
    with ExitStack() as stack:
        plain = stack.enter_context(LLM.from_config(config))
        engines = [plain]
        for each in chosen:
            speculative = dict(each)
            llm = LLM.from_config(replace(config, speculative=speculative))
            engines.append(stack.enter_context(llm))
        for batch in options.batch:
            for kind in options.kinds:
                rounds = compare(engines, kind, batch, options)
                for index, each in enumerate(chosen, 1):
                    name = f"{each['method']}, {each['num_speculative_tokens']}"
                    pairs = [(runs[0], runs[index]) for runs in rounds]
                    print(table_row(name, kind, batch, pairs), flush=True)


def compare(
    engines: list[LLM], kind: str, batch: int, options: argparse.Namespace
) -> list[list[Run]]:
    """Runs each engine once per round, in rotating order."""
    texts = prompts(kind, batch)
    for llm in engines:
        run(llm, kind, texts, 16)
    rounds = []
    for number in range(options.pairs):
        shift = number % len(engines)
        order = [*engines[shift:], *engines[:shift]]
        runs = {id(llm): run(llm, kind, texts, options.tokens) for llm in order}
        rounds.append([runs[id(llm)] for llm in engines])
    return rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--batch", type=int, nargs="+", default=[1])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--config", nargs="+", default=[CONFIG])
    options = parser.parse_args()
    config = EngineConfig(
        model=ModelConfig(model=options.model, max_model_len=2048),
        cache=CacheConfig(kv_cache_memory=512 * 2**20),
    )
    measure(config, [json.loads(each) for each in options.config], options)


if __name__ == "__main__":
    main()

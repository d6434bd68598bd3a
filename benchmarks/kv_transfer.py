"""Compares sources of a prompt's KV with computing it.

usage: python benchmarks/kv_transfer.py [--model PATH] [--tokens 2000] [--pairs 7]
           [--rows recompute local cpu_offload …]

recompute       the prompt is new
local           it is in the engine's own prefix cache
cpu_offload     it was evicted to host memory; the blocks that make room for it are
                there already and are not copied
offload_both    the blocks that make room for it are new, and are copied to host memory
                in the same step
offload_disk    it was evicted to host memory and from there to disk
shared_storage  another engine has written it to files
evictions       64 new prompts of 64 tokens with 32 output tokens each, where every new
                block evicts one to host memory; compared with overwriting them

One process has an engine per row; all get the same prompt in turn. Prints the time to
first token, its ratio to `recompute` in the same round (median, minimum, maximum), and
the ratio for the prefix alone: both minus `local`, which also computes the prompt's
last tokens. The benchmark ends if a prompt's KV comes from another source than
intended, and reports rounds in which tokens differ. Connectors have to be installed.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench_folders import own_folder

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig
from hookline_metrics.transfer_stats import transfers_of

FIRST = SamplingParams(temperature=0.0, max_tokens=1, ignore_eos=True)
BLOCK = 16
WAIT_SECONDS = 60


class Side:
    """An engine with one source of prompts' KV.

    Attributes:
        llm: The engine.
        brought: Number of a prompt's tokens that a connector has to load.
    """

    def __init__(
        self,
        model: str,
        tokens: int,
        connector: str | None = None,
        *,
        prompts_in_pool: float = 4.0,
        **options: object,
    ) -> None:
        transfer: dict[str, object] | None = None
        if connector is not None:
            transfer = {
                "kv_connector": connector,
                "kv_connector_extra_config": options,
            }
        blocks = round(prompts_in_pool * tokens / BLOCK)
        longest = min(tokens + BLOCK, 2048)
        config = EngineConfig(
            model=ModelConfig(model=model, max_model_len=longest),
            cache=CacheConfig(block_size=BLOCK, num_kv_blocks=blocks),
            kv_transfer=transfer,
        )
        self.llm = LLM.from_config(config)
        self.brought = 0 if connector is None else (tokens - 1) // BLOCK * BLOCK

    def prepare(self, prompt: list[int], others: list[list[int]]) -> None:
        """Brings the prompt's KV to its source; not timed."""

    def ask(self, prompt: list[int]) -> tuple[float, list[int]]:
        """Returns the seconds to the first token, and the token.

        Raises:
            SystemExit: The prompt's KV came from another source.
        """
        before = transfers_of(
            self.llm.front_end.engines[0].stats
        ).external_cache.hit_tokens
        began = time.perf_counter()
        [output] = self.llm.generate([prompt], FIRST, use_tqdm=False)
        seconds = time.perf_counter() - began
        brought = (
            transfers_of(self.llm.front_end.engines[0].stats).external_cache.hit_tokens
            - before
        )
        if brought != self.brought:
            name = type(self).__name__
            sys.exit(f"{name}: {brought} tokens were brought, not {self.brought}")
        return seconds, output.outputs[0].token_ids


class Local(Side):
    """Finds the prompt in its own prefix cache."""

    def prepare(self, prompt: list[int], others: list[list[int]]) -> None:  # noqa: ARG002
        self.llm.generate([prompt], FIRST, use_tqdm=False)


class Offloaded(Side):
    """Finds the prompt in host memory: other prompts have evicted it."""

    def prepare(self, prompt: list[int], others: list[list[int]]) -> None:
        for each in (prompt, *others):
            self.llm.generate([each], FIRST, use_tqdm=False)


class OnDisk(Offloaded):
    """Finds the prompt on disk, after evictions from host memory."""

    def __init__(self, model: str, tokens: int, folder: Path) -> None:
        super().__init__(
            model,
            tokens,
            "cpu_offload",
            prompts_in_pool=1.1,
            cpu_bytes_to_use=round(1.05 * tokens * token_bytes(model)),
            disk={"path": str(folder), "max_pending_bytes": 2**30},
        )
        self._folder = folder

    def prepare(self, prompt: list[int], others: list[list[int]]) -> None:
        super().prepare(prompt, others)
        wait_for_files(self._folder)


class Stored(Side):
    """Finds the prompt in files, with an empty prefix cache."""

    def __init__(self, model: str, tokens: int, folder: Path) -> None:
        super().__init__(
            model, tokens, "shared_storage", shared_storage_path=str(folder)
        )
        self._folder = folder

    def prepare(self, prompt: list[int], others: list[list[int]]) -> None:  # noqa: ARG002
        self.llm.generate([prompt], FIRST, use_tqdm=False)
        wait_for_files(self._folder)
        self.llm.reset_prefix_cache(reset_connector=False)


def token_bytes(model: str) -> int:
    """Returns the bytes of one token's KV."""
    config = json.loads((Path(model) / "config.json").read_text("utf-8"))
    heads = config["num_key_value_heads"] * config["head_dim"]
    size = 4 if config["dtype"] == "float32" else 2
    return int(config["num_hidden_layers"] * 2 * heads * size)


def wait_for_files(folder: Path) -> None:
    """Waits until no file has changed for 0.25 seconds; then syncs the disk."""
    deadline, seen = time.monotonic() + WAIT_SECONDS, -1
    while (found := sum(1 for _ in folder.rglob("*"))) != seen:
        if time.monotonic() > deadline:
            sys.exit(f"{folder} is written to without an end")
        seen = found
        time.sleep(0.25)
    os.sync()  # otherwise the system syncs while the prompt is loaded


class OffloadedBefore(Offloaded):
    """Likewise, and all of them before that."""

    def prepare(self, prompt: list[int], others: list[list[int]]) -> None:
        super().prepare(prompt, others)
        super().prepare(prompt, others)


def offloaded(kind: type[Offloaded], model: str, tokens: int) -> Side:
    """Has host memory that is full after the first rounds, as on a busy server."""
    size = round(5.5 * tokens * token_bytes(model))
    return kind(
        model, tokens, "cpu_offload", prompts_in_pool=1.1, cpu_bytes_to_use=size
    )


SIDES: dict[str, Callable[[str, int, Path], Side]] = {
    "recompute": lambda model, tokens, _: Side(model, tokens),
    "local": lambda model, tokens, _: Local(model, tokens),
    "cpu_offload": lambda model, tokens, _: offloaded(OffloadedBefore, model, tokens),
    "offload_both": lambda model, tokens, _: offloaded(Offloaded, model, tokens),
    "offload_disk": OnDisk,
    "shared_storage": Stored,
}
"""Creates each row's engine, by the row's name."""


def spread(values: list[float], digits: int) -> str:
    middle = statistics.median(values)
    return f"{middle:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def compare_prefixes(rows: list[str], model: str, tokens: int, pairs: int) -> None:
    """Prints the table of one prompt loaded from each source."""
    times: dict[str, list[float]] = {name: [] for name in rows}
    source = random.Random(1)  # noqa: S311 - prompts
    with ExitStack() as stack:
        sides = {}
        for name in rows:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            sides[name] = SIDES[name](model, tokens, folder)
            stack.enter_context(sides[name].llm)
        for number in range(pairs + 2):
            new = [[source.randrange(3, 8000) for _ in range(tokens)] for _ in range(4)]
            found = set()
            for name in sorted(rows, key=lambda _: source.random()):
                sides[name].prepare(new[0], new[1:])
                seconds, tokens_out = sides[name].ask(new[0])
                found.add(tuple(tokens_out))
                if number > 1:  # the first two warm up
                    times[name].append(seconds)
            if len(found) != 1:
                print(f"round {number}: the tokens differ: {sorted(found)}")
    print(
        f"| {tokens} tokens from | ms to the first token | ÷ recompute | prefix alone |"
    )
    print("|---|---|---|---|")
    for name in rows:
        ratios, alone = [], []
        for own, computed, local in zip(
            times[name], times["recompute"], times["local"], strict=True
        ):
            ratios.append(own / computed)
            alone.append((own - local) / (computed - local))
        ms = [seconds * 1000 for seconds in times[name]]
        print(
            f"| {name} | {spread(ms, 1)} | {spread(ratios, 3)} | {spread(alone, 3)} |"
        )


def compare_evictions(model: str, pairs: int) -> None:
    """Prints what evictions to host memory add to steps of many requests."""
    source = random.Random(2)  # noqa: S311 - prompts
    requests, length, outputs = 64, 64, 32
    params = SamplingParams(temperature=0.0, max_tokens=outputs, ignore_eos=True)
    times: tuple[list[float], list[float]] = ([], [])
    with ExitStack() as stack:
        sides = [
            Side(model, requests * (length + outputs), name, prompts_in_pool=1.1)
            for name in (None, "cpu_offload")
        ]
        for side in sides:
            stack.enter_context(side.llm)
        for number in range(pairs + 1):
            prompts = [
                [source.randrange(3, 8000) for _ in range(length)]
                for _ in range(requests)
            ]
            for at in (0, 1) if number % 2 else (1, 0):
                began = time.perf_counter()
                sides[at].llm.generate(prompts, params, use_tqdm=False)
                if number:
                    times[at].append(time.perf_counter() - began)
        cpu = transfers_of(sides[1].llm.front_end.engines[0].stats).tiers["cpu"]
    ratios = [own / other for other, own in zip(*times, strict=True)]
    print(f"\n| {requests} requests, all new blocks evict | ms | ÷ overwritten |")
    print("|---|---|---|")
    print(f"| overwritten | {spread([each * 1000 for each in times[0]], 0)} | 1 |")
    ms = [each * 1000 for each in times[1]]
    print(f"| to host memory | {spread(ms, 0)} | {spread(ratios, 3)} |")
    print(f"\n{cpu.in_bytes / 2**20 / (pairs + 1):.0f} MiB were copied a round.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=str(own_folder("models") / "llama-90m"))
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--rows", nargs="+", default=[*SIDES, "evictions"])
    options = parser.parse_args()
    rows = [name for name in SIDES if name in options.rows]
    if rows:
        both = ["recompute", "local"]
        rows = [*both, *(name for name in rows if name not in both)]
        compare_prefixes(rows, options.model, options.tokens, options.pairs)
    if "evictions" in options.rows:
        compare_evictions(options.model, options.pairs)


if __name__ == "__main__":
    main()

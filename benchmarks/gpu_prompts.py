"""Attention of prompts by every contender, checked and timed; needs a CUDA device.

usage: python benchmarks/gpu_prompts.py [--rounds 10] [--seconds 60] [--out FILE.json]
                                        [--fa3 FOLDER]

The shapes and the clock are those of `benchmarks/gpu.py`: medians of graph replays
with cold caches. Each contender is first tried in a process of its own, all at once,
which compiles it and ends what hangs. Sampled rows are compared with softmax in
float32. `--fa3` names a folder with the unpacked wheel of `fa3_fwd`.
"""

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from gpu import (
    DTYPE,
    MODELS,
    Clock,
    Model,
    facts,
    matmul_operations_a_second,
    paged,
)

from hookline_kernels import AttentionLayer

Call = Callable[[], torch.Tensor]
SHAPES = ((1, 1024, 0), (1, 2048, 0), (1, 8192, 0), (8, 2048, 0), (1, 4096, 4096))
"""Requests, new tokens and cached tokens of each."""
TOLERANCE = 2e-2
TRIAL_SECONDS = 40


@dataclass(frozen=True, slots=True)
class Prompts:
    """A step of prompts: what a layer's attention is given.

    Attributes:
        query: [T, heads, dim], like key and value a part of one product's result.
        key: [T, KV heads, dim].
        value: [T, KV heads, dim].
        layer: With a cache in which the new tokens are, too.
        tables: [R, blocks].
        starts: [R + 1] int32.
        lengths: [R] int64.
        new: New tokens of each request.
        cached: Tokens before them.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    layer: AttentionLayer
    tables: torch.Tensor
    starts: torch.Tensor
    lengths: torch.Tensor
    new: int
    cached: int

    @property
    def count(self) -> int:
        return len(self.lengths)

    @property
    def operations(self) -> int:
        """Operations of causal attention."""
        pairs = self.new * self.cached + self.new * (self.new + 1) // 2
        return 4 * self.count * pairs * self.query.shape[1] * self.query.shape[2]

    def whole(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns all keys and values, [R, tokens, KV heads, dim]."""
        keys, values = self.layer.keys, self.layer.values
        return keys[self.tables].flatten(1, 2), values[self.tables].flatten(1, 2)


def prompts(model: Model, count: int, new: int, cached: int) -> Prompts:
    device = torch.device("cuda")
    layer, tables, lengths = paged(model, count, new + cached, device)
    heads, kv_heads, dim = model.heads, model.kv_heads, model.dim
    joined = torch.randn(
        count * new, heads + 2 * kv_heads, dim, dtype=DTYPE, device=device
    )
    query, key, value = joined.split([heads, kv_heads, kv_heads], 1)
    place = torch.arange(cached, cached + new, device=device)
    blocks = tables[:, place // 16].flatten()
    for rows, cache in ((key, layer.keys), (value, layer.values)):
        cache[blocks, (place % 16).repeat(count)] = rows
    starts = torch.arange(count + 1, dtype=torch.int32, device=device) * new
    return Prompts(
        query, key, value, layer, tables, starts, lengths, new=new, cached=cached
    )


def error_of(found: torch.Tensor, case: Prompts, *, samples: int = 48) -> float:
    """Returns the largest error of sampled rows, relative to 1 plus the largest."""
    keys, values = case.whole()
    group = case.query.shape[1] // keys.shape[2]
    places = torch.linspace(0, case.new - 1, samples).long().tolist()
    worst = 0.0
    for request in {0, case.count - 1}:
        wide_keys = keys[request].float().repeat_interleave(group, 1)
        wide_values = values[request].float().repeat_interleave(group, 1)
        for place in places:
            row, end = request * case.new + place, case.cached + place + 1
            scores = torch.einsum(
                "hd,thd->ht", case.query[row].float(), wide_keys[:end]
            )
            weights = (scores * case.layer.scale).softmax(-1)
            wanted = torch.einsum("ht,thd->hd", weights, wide_values[:end])
            error = (found[row].float() - wanted).abs().max() / (1 + wanted.abs().max())
            worst = max(worst, float(error)) if math.isfinite(error) else math.inf
    return worst


def kernels(name: str) -> Any:
    return importlib.import_module(f"hookline_kernels.gpu.{name}")


def from_cache(**options: Any) -> Callable[[Prompts], Call]:
    def make(case: Prompts) -> Call:
        tiling = kernels("tilings").Tiling(**options)
        attend = kernels("prefill").prefill_attention
        output = torch.empty_like(case.query, memory_format=torch.contiguous_format)

        def call() -> torch.Tensor:
            attend(
                case.query,
                case.layer,
                case.tables,
                query_starts=case.starts,
                seq_lens=case.lengths,
                max_query_len=case.new,
                output=output,
                tiling=tiling,
            )
            return output

        return call

    return make


def from_step(**options: Any) -> Callable[[Prompts], Call]:
    def make(case: Prompts) -> Call:
        tiling = kernels("tilings").Tiling(**options)
        attend = kernels("new_tokens").new_tokens_attention
        output = torch.empty_like(case.query, memory_format=torch.contiguous_format)

        def call() -> torch.Tensor:
            attend(
                case.query,
                case.key,
                case.value,
                case.layer,
                case.tables,
                query_starts=case.starts,
                seq_lens=case.lengths,
                max_query_len=case.new,
                has_cached=case.cached > 0,
                output=output,
                tiling=tiling,
            )
            return output

        return call

    return make


def torch_attention(backend: str) -> Callable[[Prompts], Call]:
    """By `scaled_dot_product_attention`; cached tokens are gathered before."""

    def make(case: Prompts) -> Call:
        attention = importlib.import_module("torch.nn.attention")
        kind = getattr(attention.SDPBackend, backend)
        bias = importlib.import_module("torch.nn.attention.bias")
        rows = case.query.view(case.count, case.new, *case.query.shape[1:])

        def call() -> torch.Tensor:
            if case.cached:
                keys, values = case.whole()
            else:
                keys, values = (
                    each.unflatten(0, (case.count, case.new))
                    for each in (case.key, case.value)
                )
            options: dict[str, Any] = {"is_causal": True}
            if case.cached:
                options = {
                    "attn_mask": bias.causal_lower_right(case.new, keys.shape[1])
                }
            with attention.sdpa_kernel([kind]):
                found = torch.nn.functional.scaled_dot_product_attention(
                    *(each.transpose(1, 2) for each in (rows, keys, values)),
                    scale=case.layer.scale,
                    enable_gqa=True,
                    **options,
                )
            return found.transpose(1, 2).flatten(0, 1)

        return call

    return make


def fa3(case: Prompts) -> Call:
    """By FlashAttention 3 (`fa3_fwd`); cached tokens are gathered before."""
    attend = importlib.import_module("fa3_fwd_interface").flash_attn_varlen_func
    key_starts = case.starts + torch.arange(len(case.starts)).to(case.starts) * (
        case.cached
    )

    def call() -> torch.Tensor:
        key, value = case.key, case.value
        if case.cached:
            key, value = (each.flatten(0, 1) for each in case.whole())
        found: torch.Tensor = attend(
            case.query,
            key,
            value,
            case.starts,
            key_starts.to(torch.int32),
            case.new,
            case.new + case.cached,
            softmax_scale=case.layer.scale,
            causal=True,
        )
        return found[0] if isinstance(found, tuple) else found

    return call


def by_gluon(step: int, stages: int) -> Callable[[Prompts], Call]:
    """By a warp that fetches and two warpgroups that compute."""

    def make(case: Prompts) -> Call:
        if case.cached:
            raise NotImplementedError
        kernels("jit")  # chooses the assembler
        attend = importlib.import_module("gluon_prompts").attend
        output = torch.empty_like(case.query, memory_format=torch.contiguous_format)

        def call() -> torch.Tensor:
            attend(
                *(case.query, case.key, case.value, case.starts),
                *(case.new, case.layer.scale, output),
                step=step,
                stages=stages,
            )
            return output

        return call

    return make


CONTENDERS: dict[str, Callable[[Prompts], Call]] = {
    "cache, 2 stages (before)": from_cache(stages=2, ahead=False),
    "cache, 2 stages ahead": from_cache(stages=2),
    "cache, 3 stages ahead": from_cache(),
    "step, 64, 2 stages, 128 registers": from_step(stages=2, registers=128),
    "step, 64, 2 stages": from_step(stages=2),
    "step, 64, 3 stages": from_step(stages=3),
    "step, 64, 4 stages": from_step(stages=4),
    "step, 128, 2 stages": from_step(step=128, stages=2),
    "step, 128, 3 stages": from_step(step=128, stages=3),
    "step, 64 rows, 128, 2 stages": from_step(rows=64, warps=4, step=128, stages=2),
    "gluon, 128, 2 stages": by_gluon(128, 2),
    "gluon, 64, 4 stages": by_gluon(64, 4),
    "torch, cuDNN": torch_attention("CUDNN_ATTENTION"),
    "torch, flash": torch_attention("FLASH_ATTENTION"),
    "fa3_fwd": fa3,
}


def try_one(model: Model, name: str) -> None:
    """Compiles and runs a contender for both kinds of steps, in this process."""
    # Tables of a multiple of 16 blocks, as those that are timed: Triton looks at it.
    for count, new, cached in ((1, 1024, 0), (1, 444, 580)):
        case = prompts(model, count, new, cached)
        try:
            error = error_of(CONTENDERS[name](case)(), case, samples=4)
            torch.cuda.synchronize()
        except Exception as problem:
            if not cached:
                raise
            print(f"cached: {type(problem).__name__}: {problem}"[:200])
        else:
            if error > TOLERANCE:
                print(f"{cached} cached: error {error:.3g}")


def trials(deadline: float) -> dict[tuple[str, str], str]:
    """Tries all contenders at once; returns the problem of each that has one."""
    begun = {
        (model.name, name): subprocess.Popen(  # noqa: S603
            [sys.executable, __file__, "--model", model.name, "--contender", name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for model in MODELS
        for name in CONTENDERS
    }
    problems = {}
    for key, process in begun.items():
        try:
            said, _ = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            problems[key] = "hangs"
            continue
        if process.returncode:
            problems[key] = (said.strip().splitlines() or ["died"])[-1][:160]
        elif said.strip():
            print(f"{key}: {said.strip()[:300]}", flush=True)
    return problems


def host_us(call: Call) -> float:
    """Returns how long a launch keeps the host, without waiting for the device."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(200):
        call()
    seconds = time.perf_counter() - start
    torch.cuda.synchronize()
    return seconds / 200 * 1e6


def measure(options: argparse.Namespace) -> dict[str, Any]:
    begun = time.monotonic()
    problems = trials(begun + TRIAL_SECONDS)
    for key, problem in problems.items():
        print(f"{key}: {problem}", flush=True)
    print(f"tried after {time.monotonic() - begun:.0f} s", flush=True)
    device = torch.device("cuda", torch.cuda.current_device())
    about, clock = facts(device), Clock(device, options.rounds)
    matmul = matmul_operations_a_second(clock, device)
    print(f"{about}, matmul {matmul / 1e12:.0f} TFLOP/s", flush=True)
    rows: list[dict[str, Any]] = []
    for model in MODELS:
        cases = [prompts(model, *shape) for shape in SHAPES]
        for name, make in CONTENDERS.items():
            if (model.name, name) in problems:
                continue
            texts = []
            try:
                host = host_us(make(cases[0]))
            except Exception:  # noqa: BLE001 - said below
                host = math.nan
            texts.append(f"host {host:.0f} µs")
            for shape, case in zip(SHAPES, cases, strict=True):
                if time.monotonic() - begun > options.seconds:
                    texts.append("no time")
                    continue
                row = {"model": model.name, "contender": name, "shape": shape}
                row["host_us"] = host
                try:
                    call = make(case)
                    error = error_of(call(), case)
                    seconds = clock.seconds(call)
                except Exception as problem:  # noqa: BLE001 - others go on
                    texts.append(type(problem).__name__)
                    rows.append(row | {"problem": str(problem)[:300]})
                    continue
                rate = case.operations / seconds
                mark = "" if error < TOLERANCE else f" WRONG {error:.2g}"
                texts.append(
                    f"{seconds * 1e6:.0f} µs {rate / 1e12:.0f} "
                    f"{rate / matmul:.0%}{mark}"
                )
                rows.append(row | {"us": seconds * 1e6, "rate": rate, "error": error})
            print(f"| {model.name} | {name} | {' | '.join(texts)} |", flush=True)
    print(f"took {time.monotonic() - begun:.0f} s")
    return {**about, "matmul": matmul, "rows": rows, "shapes": SHAPES} | {
        "problems": {" ".join(key): text for key, text in problems.items()}
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--fa3", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--contender")
    options = parser.parse_args()
    if options.fa3:
        # Processes of trials inherit it.
        paths = [str(options.fa3), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        sys.path.insert(0, str(options.fa3))
    if options.contender:
        model = next(each for each in MODELS if each.name == options.model)
        try_one(model, options.contender)
        return
    found = measure(options)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

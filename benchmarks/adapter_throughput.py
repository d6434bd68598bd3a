"""Compares throughput with and without LoRA adapters, also with vLLM's.

usage: python benchmarks/adapter_throughput.py --model FOLDER [--rounds 10]
           [--sides off base one eight zipf-64 …] [--vllm PYTHON] [--requests 48]

Each side is a process that generates for all requests offline, 16 at once, and each
round runs all sides in turn. Ratios are of the same round, to the side `off`, or of a
side to vLLM's with the same adapters.

off       adapters are off
base      adapters are on, and no request has one
one       all requests have one adapter
eight     requests have one of eight adapters, or none, in turn
zipf-N    requests have one of N adapters over eight slots, drawn by Zipf's law

`vllm-off`, `vllm-one` and `vllm-eight` run vLLM by the interpreter of `--vllm`.
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RUNNING = 16
PROMPT, OUTPUT = 64, 64
SLOTS = 8
PEER = "vllm-"


def main() -> None:
    """Measures, or is one side."""
    options = _parser().parse_args()
    if options.side is not None:
        print(json.dumps(run(options)))
        return
    measured: list[dict[str, float]] = []
    for turn in range(options.rounds):
        found = {side: _measured(side, options) for side in options.sides}
        measured.append({side: each["rate"] for side, each in found.items()})
        shown = ", ".join(
            f"{side} {each['rate']:.1f}/s ({each['processor_ms']:.1f} ms)"
            for side, each in found.items()
        )
        print(f"{turn + 1}: {shown}", flush=True)
    for side in options.sides:
        if side != "off" and not side.startswith(PEER) and "off" in options.sides:
            _show(side, "off", measured)
        if f"{PEER}{side}" in options.sides:
            _show(side, f"{PEER}{side}", measured)


def _show(side: str, other: str, measured: Sequence[dict[str, float]]) -> None:
    ratios = [each[side] / each[other] for each in measured]
    print(
        f"{side} / {other}: {statistics.median(ratios):.3f} "
        f"({min(ratios):.3f} to {max(ratios):.3f})"
    )


def _measured(side: str, options: argparse.Namespace) -> dict[str, float]:
    python = options.vllm if side.startswith(PEER) else sys.executable
    command = [python, __file__, "--side", side, "--model", str(options.model)]
    command += ["--adapters", str(_adapters(options)), "--rank", str(options.rank)]
    command += ["--requests", str(options.requests)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    last = done.stdout.strip().splitlines()[-1]
    found: dict[str, float] = json.loads(last)
    return found


def _adapters(options: argparse.Namespace) -> Path:
    """Returns the folder of adapters, which are made if they are not there."""
    folder: Path = options.adapters / f"{options.model.name}-{options.rank}"
    most = max([SLOTS, *(_number(side) for side in options.sides)])
    if not (folder / f"a{most - 1}").is_dir():
        from transformers import AutoModelForCausalLM  # noqa: PLC0415

        from hookline_testing.adapters import make_adapter, shapes_of  # noqa: PLC0415

        model = AutoModelForCausalLM.from_pretrained(options.model)
        for at in range(most):
            make_adapter(
                folder / f"a{at}",
                shapes_of(model),
                rank=options.rank,
                alpha=float(options.rank),
                seed=at,
                dtype=model.dtype,
                strength=0.1,
            )
    return folder


def _number(side: str) -> int:
    words = {"one": 1, "eight": 8}
    name = side.removeprefix(PEER)
    return int(name[5:]) if name.startswith("zipf-") else words.get(name, 0)


def names_of(side: str, requests: int) -> list[str | None]:
    """Returns the adapter of each request."""
    number = _number(side)
    if side.removeprefix(PEER) == "eight":
        return [f"a{at % 9}" if at % 9 < 8 else None for at in range(requests)]
    if number == 0:
        return [None] * requests
    weights = [1 / (at + 1) for at in range(number)]
    drawn = random.Random(3).choices(range(number), weights, k=requests)  # noqa: S311
    return [f"a{at}" for at in drawn]


def prompts_of(requests: int) -> list[list[int]]:
    source = random.Random(4)  # noqa: S311 - to be repeated
    return [[source.randrange(3, 8000) for _ in range(PROMPT)] for _ in range(requests)]


def run(options: argparse.Namespace) -> dict[str, float]:
    """Generates as one side; returns its tokens a second, and processor time."""
    side, requests = options.side, options.requests
    generate = _peer(options) if side.startswith(PEER) else _ours(options)
    names, prompts = names_of(side, requests), prompts_of(requests)
    generate(prompts[:RUNNING], names[:RUNNING])  # compiles and loads
    generate([prompt[::-1] for prompt in prompts], names)
    began, used = time.monotonic(), _processor()
    tokens = generate(prompts, names)
    seconds = time.monotonic() - began
    return {
        "rate": tokens / seconds,
        "processor_ms": 1000 * (_processor() - used) / tokens * 1000,
    }


def _processor() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


def _engine_options(
    options: argparse.Namespace, *, has_adapters: bool
) -> dict[str, Any]:
    """Returns the options of an `LLM`, which both have by these names."""
    found: dict[str, Any] = {
        "max_model_len": 512,
        "max_num_seqs": RUNNING,
        "enable_prefix_caching": False,
    }
    if has_adapters:
        found["enable_lora"], found["max_lora_rank"] = True, options.rank
        found["max_loras"] = SLOTS
        found["max_cpu_loras"] = max(_number(options.side), SLOTS)
    return found


def _ours(options: argparse.Namespace) -> Any:
    from hookline import LLM, SamplingParams  # noqa: PLC0415
    from hookline_offline.lora_requests import LoRARequest  # noqa: PLC0415

    more = _engine_options(options, has_adapters=options.side != "off")
    llm = LLM(str(options.model), collect_metrics=False, **more)
    params = SamplingParams(max_tokens=OUTPUT, temperature=0.0, ignore_eos=True)

    def generate(prompts: Sequence[Sequence[int]], names: Sequence[str | None]) -> int:
        given = [
            None if name is None else LoRARequest(name, 0, str(options.adapters / name))
            for name in names
        ]
        request = given if any(given) else None
        outputs = llm.generate(prompts, params, lora_request=request, use_tqdm=False)
        return sum(len(each.outputs[0].token_ids) for each in outputs)

    return generate


def _peer(options: argparse.Namespace) -> Any:
    from vllm import LLM, SamplingParams  # noqa: PLC0415
    from vllm.lora.request import LoRARequest  # noqa: PLC0415

    more = _engine_options(options, has_adapters=_number(options.side) > 0)
    llm = LLM(str(options.model), **more)
    params = SamplingParams(max_tokens=OUTPUT, temperature=0.0, ignore_eos=True)

    def generate(prompts: Sequence[Sequence[int]], names: Sequence[str | None]) -> int:
        given = [
            None
            if name is None
            else LoRARequest(name, int(name[1:]) + 1, str(options.adapters / name))
            for name in names
        ]
        outputs = llm.generate(
            [{"prompt_token_ids": list(each)} for each in prompts],
            params,
            lora_request=given if any(given) else None,
            use_tqdm=False,
        )
        return sum(len(each.outputs[0].token_ids) for each in outputs)

    return generate


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Throughput with LoRA adapters.")
    cache = Path.home() / ".cache/hookline/benchmarks/adapters"
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--sides", nargs="+", default=["off", "base", "one", "eight"])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--requests", type=int, default=48)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--vllm", default="")
    parser.add_argument("--adapters", type=Path, default=cache)
    parser.add_argument("--side")
    return parser


if __name__ == "__main__":
    main()

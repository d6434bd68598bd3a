"""Compares the offline throughput of two sides, in pairs.

usage: python benchmarks/offline.py [--sides hookline transformers] [--pairs 3]
                                    [--model llama-90m] [--requests 128] ...

hookline       `LLM.generate`, no logger
transformers   `generate` on static batches

Each run is a new process, A B A B …, on the same random prompts, greedy and ignoring
end-of-text; the model is loaded and warmed up before the clock starts.
Prints one row per run, then the medians and the ratio of each pair.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench_folders import own_folder
from bench_models import NAMES, write_models


def make_prompts(options: argparse.Namespace) -> list[list[int]]:
    source = random.Random(0)  # noqa: S311 - the same prompts for both sides
    return [
        [source.randrange(3, 8000) for _ in range(options.input_tokens)]
        for _ in range(options.requests)
    ]


def run_hookline(options: argparse.Namespace, folder: Path) -> float:
    """Returns output tokens per second of `LLM.generate`."""
    from hookline import LLM, EngineConfig, ModelConfig, SamplingParams  # noqa: PLC0415

    def greedy(count: int) -> SamplingParams:
        return SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True)

    prompts = make_prompts(options)
    config = EngineConfig(model=ModelConfig(model=str(folder)))
    with LLM.from_config(config) as llm:
        llm.generate(prompts[:8], greedy(4), use_tqdm=False)
        llm.reset_prefix_cache()
        start = time.perf_counter()
        outputs = llm.generate(prompts, greedy(options.output_tokens), use_tqdm=False)
        seconds = time.perf_counter() - start
    return sum(len(each.outputs[0].token_ids) for each in outputs) / seconds


def run_transformers(options: argparse.Namespace, folder: Path) -> float:
    """Returns output tokens per second of `generate` on static batches."""
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    model.train(mode=False)
    prompts = torch.tensor(make_prompts(options))

    def generate(batch: torch.Tensor, count: int) -> int:
        output = model.generate(  # type: ignore[misc]
            batch,
            attention_mask=torch.ones_like(batch),
            do_sample=False,
            min_new_tokens=count,
            max_new_tokens=count,
        )
        return int(output[:, batch.shape[1] :].numel())

    with torch.inference_mode():
        generate(prompts[:8], 4)
        start = time.perf_counter()
        batches = torch.split(prompts, options.batch)
        tokens = sum(generate(batch, options.output_tokens) for batch in batches)
    return tokens / (time.perf_counter() - start)


FORWARDED = (
    "model",
    "models_folder",
    "requests",
    "input_tokens",
    "output_tokens",
    "batch",
)
SIDES = {
    "hookline": run_hookline,
    "transformers": run_transformers,
}


def run_apart(side: str, options: argparse.Namespace) -> float:
    """Runs one side in a process and returns its result."""
    command = [sys.executable, __file__, "--side", side]
    for name in FORWARDED:
        command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return float(json.loads(done.stdout.splitlines()[-1])["output_tokens_per_second"])


def compare(options: argparse.Namespace) -> None:
    first, second = options.sides
    work = f"{options.requests} x ({options.input_tokens} + {options.output_tokens})"
    print(f"{options.model}, {work}, output tokens/s", flush=True)
    rows: list[tuple[float, float]] = []
    for pair in range(options.pairs):
        rows.append((run_apart(first, options), run_apart(second, options)))
        show(f"pair {pair + 1}", options.sides, *rows[-1])
    ratios = sorted(ours / theirs for ours, theirs in rows)
    medians = [statistics.median(column) for column in zip(*rows, strict=True)]
    show("median", options.sides, *medians)
    middle = statistics.median(ratios)
    print(f"ratio of pairs: {middle:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")


def show(title: str, sides: list[str], ours: float, theirs: float) -> None:
    print(f"{title}: {sides[0]} {ours:.0f}, {sides[1]} {theirs:.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = ["hookline", "transformers"]
    parser.add_argument("--sides", nargs=2, choices=sorted(SIDES), default=default)
    parser.add_argument("--model", choices=NAMES, default="llama-90m")
    folder = own_folder("models")
    parser.add_argument("--models-folder", type=Path, default=folder)
    parser.add_argument("--requests", type=int, default=128)
    parser.add_argument("--input-tokens", type=int, default=128)
    parser.add_argument("--output-tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=128, help="of transformers")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--side", choices=sorted(SIDES))
    options = parser.parse_args()
    write_models(options.models_folder, (options.model,))
    if options.side is None:
        compare(options)
        return
    speed = SIDES[options.side](options, options.models_folder / options.model)
    print(json.dumps({"output_tokens_per_second": speed}))


if __name__ == "__main__":
    main()

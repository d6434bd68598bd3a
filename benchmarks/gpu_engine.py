"""Whole engines on a GPU beside `generate_batch`; needs a CUDA device.

usage: python benchmarks/gpu_engine.py [--models Qwen3-0.6B …] [--pairs 3]
                                       [--max-num-batched-tokens N] [--out FILE.json]

The models have the shapes of `gpu.py`, bfloat16 and random weights.
Each run is a new process, A B A B …, on the same random prompts, greedy and ignoring
end-of-text, with a warmup before the clock starts. The peer is `transformers` with
continuous batching (`generate_batch`), a manager kept between calls of one shape, and
its default attention. `gpu_steps.py` measures where the time of Hookline's steps goes.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench_models import train_tokenizer
from gpu import MODELS, Model, driver_version

MAX_MODEL_LEN = 8256


@dataclass(frozen=True, slots=True)
class Work:
    """Requests sent at once, all of the same shape."""

    requests: int
    input_tokens: int
    output_tokens: int

    def prompts(self, seed: int) -> list[list[int]]:
        source = random.Random(seed)  # noqa: S311 - the same for both sides
        return [
            [source.randrange(3, 8000) for _ in range(self.input_tokens)]
            for _ in range(self.requests)
        ]


WORKS = (Work(1, 1024, 256), Work(32, 1024, 256), Work(256, 256, 256))
Generate = Callable[[list[list[int]], int], int]
"""Maps prompts and the number of output tokens to the number generated."""


def write_model(model: Model, folder: Path) -> None:
    """Writes a configuration and a tokenizer; the weights are created on loading."""
    from transformers import LlamaConfig, Qwen3Config  # noqa: PLC0415

    kind: type[Any] = Qwen3Config if model.name.startswith("Qwen3") else LlamaConfig
    kind(
        vocab_size=model.vocab_size,
        hidden_size=model.hidden,
        intermediate_size=model.intermediate,
        num_hidden_layers=model.layers,
        num_attention_heads=model.heads,
        num_key_value_heads=model.kv_heads,
        head_dim=model.dim,
        max_position_embeddings=MAX_MODEL_LEN,
        tie_word_embeddings=model.is_tied,
        dtype="bfloat16",
        architectures=[f"{kind.__name__.removesuffix('Config')}ForCausalLM"],
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    ).save_pretrained(folder)
    train_tokenizer().save_pretrained(folder)


def hookline(folder: Path, device: str, step_tokens: int | None) -> Generate:
    from hookline import LLM, EngineConfig, ModelConfig, SamplingParams  # noqa: PLC0415
    from hookline.config import (  # noqa: PLC0415
        Device,
        ExecutorConfig,
        LoadFormat,
        SchedulerConfig,
    )

    config = EngineConfig(
        model=ModelConfig(model=str(folder), load_format=LoadFormat.DUMMY),
        executor=ExecutorConfig(device=Device(device)),
        scheduler=SchedulerConfig(max_num_batched_tokens=step_tokens),
    )
    llm = LLM.from_config(config)

    def generate(prompts: list[list[int]], num_tokens: int) -> int:
        params = SamplingParams(temperature=0.0, max_tokens=num_tokens, ignore_eos=True)
        outputs = llm.generate(prompts, params, use_tqdm=False)
        return sum(len(output.outputs[0].token_ids) for output in outputs)

    return generate


def transformers(folder: Path, device: str, _step_tokens: int | None) -> Generate:
    import torch  # noqa: PLC0415
    from transformers import (  # noqa: PLC0415
        AutoConfig,
        AutoModelForCausalLM,
        GenerationConfig,
    )

    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(folder), dtype=torch.bfloat16
        )
    model.train(mode=False)
    sized: set[tuple[int, int]] = set()

    def generate(prompts: list[list[int]], num_tokens: int) -> int:
        asked = GenerationConfig(
            max_new_tokens=num_tokens, do_sample=False, eos_token_id=-1, pad_token_id=0
        )
        if (size := (len(prompts), num_tokens)) not in sized:
            # A manager keeps the cache and the graphs of the work that it began with.
            model.destroy_cached_continuous_batching_manager()
            sized.add(size)
        outputs = model.generate_batch(
            prompts, generation_config=asked, persistent_manager=True
        )
        return sum(len(output.generated_tokens) for output in outputs.values())

    return generate


SIDES = {"hookline": hookline, "transformers": transformers}


def speeds(generate: Generate) -> list[float]:
    """Returns output tokens per second of each work."""
    found = []
    for number, work in enumerate(WORKS):
        generate(work.prompts(-1 - number), work.output_tokens)
        prompts = work.prompts(number)
        start = time.perf_counter()
        tokens = generate(prompts, work.output_tokens)
        found.append(tokens / (time.perf_counter() - start))
        if tokens != work.requests * work.output_tokens:
            sys.exit(f"{tokens} tokens came of {work}")
    return found


def run_apart(side: str, folder: Path, step_tokens: int | None) -> list[float]:
    """Runs one side in a process and returns its result."""
    command = [sys.executable, __file__, "--side", side, "--folder", str(folder)]
    if step_tokens is not None:
        command += ["--max-num-batched-tokens", str(step_tokens)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(
    model: Model, pairs: int, step_tokens: int | None
) -> list[dict[str, object]]:
    """Prints the medians of the pairs, one row per work."""
    runs: dict[str, list[list[float]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as name:
        write_model(model, Path(name))
        for _ in range(pairs):
            for side, found in runs.items():
                found.append(run_apart(side, Path(name), step_tokens))
    rows = []
    for number, work in enumerate(WORKS):
        values = [[run[number] for run in runs[side]] for side in SIDES]
        ours, theirs = map(statistics.median, values)
        ratio = statistics.median(a / b for a, b in zip(*values, strict=True))
        text = f"{work.requests} × ({work.input_tokens} + {work.output_tokens})"
        print(
            f"| {model.name} | {text} | {ours:.0f} | {theirs:.0f} | {ratio:.2f} |",
            flush=True,
        )
        row = {"hookline": ours, "transformers": theirs, "ratio": ratio}
        rows.append({"model": model.name, **asdict(work), **row})
    return rows


def main() -> None:
    import torch  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__)
    names = [model.name for model in MODELS]
    parser.add_argument("--models", nargs="+", choices=names, default=names)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--max-num-batched-tokens", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--side", choices=sorted(SIDES))
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu_engine.py needs a CUDA device; torch finds none")
    if options.side:
        side = SIDES[options.side]
        generate = side(options.folder, "cuda", options.max_num_batched_tokens)
        print(json.dumps(speeds(generate)))
        return
    device = torch.cuda.get_device_name()
    print(f"{device}, driver {driver_version()}, torch {torch.__version__}\n")
    print("| model | requests × (prompt + output) | Hookline tok/s | peer | ratio |")
    print("|---|---|---:|---:|---:|")
    chosen = [model for model in MODELS if model.name in options.models]
    step_tokens = options.max_num_batched_tokens
    rows = [
        row for model in chosen for row in compare(model, options.pairs, step_tokens)
    ]
    if options.out:
        options.out.write_text(json.dumps({"device": device, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()

"""Times the GPU kernels against the device's measured limits; needs a CUDA device.

usage: python benchmarks/gpu.py [--work kernels|limits|nano] [--rounds 30]
                                [--out FILE.json]

The shapes are those of one layer of Qwen3-0.6B and Llama-3.1-8B, in bfloat16. A round
is one replay of a CUDA graph between two events, after 256 MiB were written to flush
the cache: like an engine's decodes it has no launches to wait for. Times are medians.
Bytes moved are the minimum to read and write, compared with a measured copy;
operations are those of causal attention, compared with a measured matrix product.

`limits` measures only that copy and that product. `nano` serves the requests that
nano-vllm publishes its figure for: `gpu_steps.py` has it.
"""

import argparse
import importlib
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from hookline_kernels import AttentionLayer
from hookline_kernels.metadata import AttentionMetadata

BLOCK_SIZE = 16
DTYPE = torch.bfloat16
DECODES = [(1, 1024), (1, 32768), (32, 2048), (128, 1024), (256, 1024)]
PROMPTS = [(1, 1024), (1, 8192), (8, 2048)]
TOKENS = [1, 64, 4096]
FLUSHED_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Model:
    """The shape of a layer."""

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    dim: int
    vocab_size: int
    is_tied: bool = False

    @property
    def parameters(self) -> tuple[int, int]:
        """Numbers of weights in the products of all layers, and of the output layer."""
        heads = (2 * self.heads + 2 * self.kv_heads) * self.dim
        layer = self.hidden * (heads + 3 * self.intermediate)
        return self.layers * layer, self.vocab_size * self.hidden

    @property
    def kv_bytes(self) -> int:
        """Size of a token's keys and values in all layers."""
        return 2 * self.layers * self.kv_heads * self.dim * DTYPE.itemsize


MODELS = (
    Model("Qwen3-0.6B", 28, 1024, 3072, 16, 8, 128, 151_936, is_tied=True),
    Model("Llama-3.2-1B", 16, 2048, 8192, 32, 8, 64, 128_256, is_tied=True),
    Model("Llama-3.1-8B", 32, 4096, 14_336, 32, 8, 128, 128_256),
)
KERNELS_OF = (MODELS[0], MODELS[2])


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel with its inputs, and the minimum it must move or compute."""

    name: str
    call: Callable[[], object]
    moved_bytes: int = 0
    operations: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A case's time, and the fraction of the device's measured best that it reaches."""

    model: str
    case: str
    microseconds: float
    rate: float
    unit: str
    share: float


class Clock:
    """Times work on a device."""

    def __init__(self, device: torch.device, rounds: int) -> None:
        self._rounds = rounds
        self._flushed = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device=device)

    def seconds(self, call: Callable[[], object], *, captured: bool = True) -> float:
        """Returns the median of the rounds, after three warmup rounds.

        Args:
            call: Launches the work.
            captured: Whether it is replayed from a graph.
        """
        if captured:
            call = self._capture(call)
        times: list[float] = []
        for _ in range(self._rounds + 3):
            self._flushed.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / 1000)
        return statistics.median(times[3:])

    def _capture(self, call: Callable[[], object]) -> Callable[[], object]:
        call()  # compiles, which is not allowed during capture
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return graph.replay


def bytes_of(*tensors: torch.Tensor) -> int:
    return sum(tensor.numel() * tensor.itemsize for tensor in tensors)


def kernels(name: str) -> Any:
    """Imports the kernels late: Triton may be missing or interpreted."""
    return importlib.import_module(f"hookline_kernels.gpu.{name}")


def randn(*shape: int, device: torch.device) -> torch.Tensor:
    return torch.randn(shape, dtype=DTYPE, device=device)


def paged(
    model: Model, count: int, length: int, device: torch.device
) -> tuple[AttentionLayer, torch.Tensor, torch.Tensor]:
    """Creates a layer with its cache, random block tables, and lengths."""
    blocks = -(-length // BLOCK_SIZE)
    shape = (count * blocks, BLOCK_SIZE, model.kv_heads, model.dim)
    tables = torch.randperm(count * blocks, device=device).view(count, blocks)
    lengths = torch.full((count,), length, device=device)
    keys, values = (randn(*shape, device=device) for _ in range(2))
    return AttentionLayer(keys, values, model.dim**-0.5), tables, lengths


def decode_case(model: Model, count: int, length: int, device: torch.device) -> Case:
    decode = kernels("decode")
    layer, tables, lengths = paged(model, count, length, device)
    query = randn(count, model.heads, model.dim, device=device)
    splits = decode.choose_splits(
        device, num_seqs=count, num_kv_heads=model.kv_heads, max_seq_len=length
    )

    def call() -> object:
        return decode.decode_attention(query, layer, tables, lengths, num_splits=splits)

    read = 2 * count * length * model.kv_heads * model.dim * DTYPE.itemsize
    name = f"decode {count} × {length}, {splits} splits"
    return Case(name, call, moved_bytes=read + 2 * bytes_of(query))


def prefill_case(model: Model, count: int, length: int, device: torch.device) -> Case:
    layer, tables, lengths = paged(model, count, length, device)
    tokens, sizes = count * length, (model.heads, model.kv_heads, model.kv_heads)
    heads = randn(tokens, sum(sizes), model.dim, device=device).split(sizes, 1)
    attention = kernels("attention").TritonAttention(
        num_heads=model.heads,
        num_kv_heads=model.kv_heads,
        key_dim=model.dim,
        value_dim=model.dim,
        block_size=BLOCK_SIZE,
        dtype=DTYPE,
    )
    batch = AttentionMetadata(
        slot_mapping=lengths,  # nothing is written
        block_tables=tables,
        query_lens=[length] * count,
        seq_lens=[length] * count,
        num_decodes=0,
        seq_lens_tensor=lengths,
    )

    def call() -> object:
        return attention.attend_written(*heads, layer, batch)

    pairs = count * length * (length + 1) // 2
    return Case(
        f"prefill {count} × {length}",
        call,
        operations=4 * pairs * model.heads * model.dim,
    )


def layer_cases(model: Model, tokens: int, device: torch.device) -> list[Case]:
    norm, gated, rotary = kernels("norm"), kernels("gated"), kernels("rotary")
    hidden, residual = (randn(tokens, model.hidden, device=device) for _ in range(2))
    weight = randn(model.hidden, device=device)
    gate_up = randn(tokens, 2 * model.intermediate, device=device)
    query = randn(tokens, model.heads, model.dim, device=device)
    key, value = (
        randn(tokens, model.kv_heads, model.dim, device=device) for _ in range(2)
    )
    angles = torch.rand(tokens, model.dim, device=device)
    cosines, sines = angles.cos().to(DTYPE), angles.sin().to(DTYPE)
    layer, tables, _ = paged(model, 1, tokens, device)
    slots = (
        tables[0, :, None] * BLOCK_SIZE + torch.arange(16, device=device)
    ).flatten()
    slots = slots[:tokens].contiguous()
    turned = 2 * bytes_of(query, key, value) + bytes_of(cosines, sines, slots, key)
    return [
        Case(
            f"norm of {tokens}",
            lambda: norm.rms_norm(hidden, weight, 1e-6),
            2 * bytes_of(hidden) + bytes_of(weight),
        ),
        Case(
            f"add and norm of {tokens}",
            lambda: norm.add_rms_norm(hidden, residual, weight, 1e-6),
            4 * bytes_of(hidden) + bytes_of(weight),
        ),
        Case(
            f"silu · mul of {tokens}",
            lambda: gated.silu_mul(gate_up),
            bytes_of(gate_up) * 3 // 2,
        ),
        Case(
            f"rotary and cache of {tokens}",
            lambda: rotary.rotate_and_write(
                query,
                key,
                value,
                cosines,
                sines,
                keys=layer.keys,
                values=layer.values,
                slots=slots,
            ),
            turned,
        ),
    ]


def sampling_cases(model: Model, rows: int, device: torch.device) -> list[Case]:
    """Returns sampling's cases; the float32 logits count as read once."""
    sampling = kernels("sampling")
    logits = torch.randn(rows, model.vocab_size, device=device)
    temperatures = torch.ones(rows, device=device)
    points = torch.rand(rows, dtype=torch.float64, device=device)
    filters = {
        "top_k": torch.full((rows,), 50, device=device),
        "top_p": torch.full((rows,), 0.9, device=device),
        "min_p": torch.zeros(rows, device=device),
    }
    by_share = {**filters, "top_k": torch.full_like(filters["top_k"], model.vocab_size)}
    read = bytes_of(logits)
    return [
        Case(f"argmax of {rows}", lambda: sampling.argmax(logits), read),
        Case(
            f"draw of {rows}", lambda: sampling.draw(logits, temperatures, points), read
        ),
        Case(
            f"filtered draw of {rows}",
            lambda: sampling.draw_filtered(logits, temperatures, points, **filters),
            read,
        ),
        Case(
            f"draw by share alone of {rows}",
            lambda: sampling.draw_filtered(logits, temperatures, points, **by_share),
            read,
        ),
    ]


def cases(model: Model, device: torch.device) -> Iterator[list[Case]]:
    """Yields the groups one by one, so that only one group's inputs are in memory."""
    for count, length in DECODES:
        yield [decode_case(model, count, length, device)]
    for count, length in PROMPTS:
        yield [prefill_case(model, count, length, device)]
    for tokens in TOKENS:
        yield layer_cases(model, tokens, device)
    for rows in (1, 64):
        yield sampling_cases(model, rows, device)


def copied_bytes_a_second(clock: Clock, device: torch.device) -> float:
    source = torch.empty(1 << 30, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    # A graph would leave it to a copy engine, which is slower than a kernel.
    return 2 * len(source) / clock.seconds(lambda: target.copy_(source), captured=False)


def matmul_operations_a_second(clock: Clock, device: torch.device) -> float:
    size = 8192
    left, right = (randn(size, size, device=device) for _ in range(2))
    return 2 * size**3 / clock.seconds(lambda: left @ right)


def row_of(
    model: Model, case: Case, seconds: float, *, copy: float, matmul: float
) -> Row:
    if case.operations:
        rate, best, unit, scale = case.operations / seconds, matmul, "TFLOP/s", 1e12
    else:
        rate, best, unit, scale = case.moved_bytes / seconds, copy, "GB/s", 1e9
    return Row(model.name, case.name, seconds * 1e6, rate / scale, unit, rate / best)


def driver_version() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        found = subprocess.run(query, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.split("\n", 1)[0]


def facts(device: torch.device) -> dict[str, str]:
    return {
        "device": torch.cuda.get_device_name(device),
        "driver": driver_version(),
        "torch": torch.__version__,
        "triton": importlib.import_module("triton").__version__,
    }


def measured_limits(clock: Clock, device: torch.device) -> dict[str, float]:
    """Measures and prints what a copy and a product reach on the device."""
    copy = copied_bytes_a_second(clock, device)
    matmul = matmul_operations_a_second(clock, device)
    print(", ".join(f"{key} {value}" for key, value in facts(device).items()))
    print(f"copy {copy / 1e9:.0f} GB/s, matmul {matmul / 1e12:.0f} TFLOP/s", flush=True)
    return {"copy_bytes_per_second": copy, "matmul_flops": matmul}


def measured_kernels(
    clock: Clock, device: torch.device, *, copy: float, matmul: float
) -> list[dict[str, object]]:
    """Measures the kernels and prints a table."""
    print("\n| model | work | µs | rate | of the measured best |")
    print("|---|---|---:|---:|---:|")
    rows = []
    for model in KERNELS_OF:
        for group in cases(model, device):
            for case in group:
                seconds = clock.seconds(case.call)
                row = row_of(model, case, seconds, copy=copy, matmul=matmul)
                rows.append(asdict(row))
                print(
                    f"| {row.model} | {row.case} | {row.microseconds:.1f} "
                    f"| {row.rate:.1f} {row.unit} | {row.share:.0%} |",
                    flush=True,
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    works = ("kernels", "limits", "nano")
    parser.add_argument("--work", choices=works, default="kernels")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py needs a CUDA device, and torch finds none")
    if options.work == "nano":
        command = [sys.executable, str(Path(__file__).with_name("gpu_steps.py"))]
        command += ["--works", "nano"]
        command += ["--out", str(options.out)] if options.out else []
        sys.exit(subprocess.run(command, check=False).returncode)  # noqa: S603
    device = torch.device("cuda", torch.cuda.current_device())
    clock = Clock(device, options.rounds)
    best = measured_limits(clock, device)
    document: dict[str, object] = {**facts(device), **best}
    if options.work == "kernels":
        document["rows"] = measured_kernels(
            clock,
            device,
            copy=best["copy_bytes_per_second"],
            matmul=best["matmul_flops"],
        )
    if options.out:
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()

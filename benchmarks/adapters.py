"""Compares a layer's products with and without LoRA adapters.

usage: python benchmarks/adapters.py [--dtype bfloat16|float32] [--shape 0.5b|90m]
                                     [--rank 16] [--rounds 15] [--case ROWS:ADAPTERS …]

Base and adapters take turns; weights are cold, as a model's are. Steps of up to 128
rows are replayed, as in decoding. Times are of one layer: the minimum of all rounds,
and the median ratio of both sides of a round.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from hookline_kernels.cpu.recording import Arena, Recorder, recording
from hookline_kernels.modules.gated import fast_gated
from hookline_kernels.modules.linears import joined
from hookline_lora.kernels.rows import StepRows
from hookline_lora.kernels.site import AdaptedSite
from hookline_lora.kernels.splitting import split

WEIGHTS_BYTES = 200 << 20
MOST_REPLAYED = 128
MAX_LORAS = 8
CASES = ["1:1", "16:1", "16:8", "512:1"]

Run = Callable[[], object]


class Shape(NamedTuple):
    """Widths of a model's layers."""

    hidden: int
    intermediate: int
    query: int
    key: int


SHAPES = {"0.5b": Shape(896, 4864, 896, 128), "90m": Shape(576, 1536, 576, 192)}


class Mlp(nn.Module):
    """A gated MLP, as `transformers` has it."""

    def __init__(self, shape: Shape, dtype: torch.dtype) -> None:
        super().__init__()
        self.gate_proj = _linear(shape.hidden, shape.intermediate, dtype)
        self.up_proj = _linear(shape.hidden, shape.intermediate, dtype)
        self.down_proj = _linear(shape.intermediate, shape.hidden, dtype)
        self.act_fn = nn.SiLU()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        gates = self.act_fn(self.gate_proj(values))
        found: torch.Tensor = self.down_proj(gates * self.up_proj(values))
        return found


class Layer:
    """The products of one layer, with its fused kernels or with adapters."""

    def __init__(self, shape: Shape, dtype: torch.dtype, rank: int) -> None:
        hidden, wide, query, key = shape
        widths = [query, key, key]
        self._heads = joined([_linear(hidden, width, dtype) for width in widths])
        self._output = joined([_linear(query, hidden, dtype)])
        mlp = fast_gated(Mlp(shape, dtype))
        assert mlp is not None
        self._mlp, self._parts = mlp, split(mlp)
        slices = [(0, query), (query, key), (query + key, key)]
        self._sites = [
            AdaptedSite(inputs, places, dtype, MAX_LORAS)
            for inputs, places in (
                (hidden, slices),
                (query, [(0, hidden)]),
                (hidden, self._parts.slices),
                (wide, [(0, hidden)]),
            )
        ]
        for site in self._sites:
            for slot in range(MAX_LORAS):
                site.set(slot, [_adapter(site.in_features, each.width, rank)
                                for each in site.slices])  # fmt: skip
        self._query = query

    def base(self, values: torch.Tensor) -> torch.Tensor:
        heads = self._heads(values)
        hidden = self._output(_columns(heads, values), values)
        return self._mlp(hidden, hidden)

    def adapted(self, values: torch.Tensor, rows: StepRows) -> torch.Tensor:
        of_heads, of_output, of_gates, of_down = self._sites
        heads = self._heads(values)
        of_heads.add(heads, values, rows)
        attended = _columns(heads, values)
        hidden = self._output(attended, values)
        of_output.add(hidden, attended, rows)
        sides = self._parts.gate_up(hidden)
        of_gates.add(sides, hidden, rows)
        gated = self._parts.gate(sides)
        found = self._parts.down(gated, hidden)
        of_down.add(found, gated, rows)
        return found


def _columns(heads: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Returns numbers of the queries' shape, in place of attention's."""
    return heads.view(-1)[: values.numel()].view(values.shape)


def _linear(inputs: int, outputs: int, dtype: torch.dtype) -> nn.Linear:
    found = nn.Linear(inputs, outputs, bias=False, dtype=dtype)
    found.weight.data.normal_(0, inputs**-0.5)
    return found


def _adapter(inputs: int, outputs: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rank, inputs) / inputs**0.5, torch.randn(outputs, rank) / 30


def prepared(run: Callable[[], torch.Tensor], replays: bool) -> Run:
    """Returns what computes the same again."""
    if not replays:
        return run
    run()
    recorder = Recorder(Arena())
    with recording(recorder):
        kept = run()
    assert not recorder.is_refused
    found: Any = recorder.recording()  # without attention, it needs no batch

    def replay(_: object = kept) -> object:
        return found.run(None)

    return replay


def seconds_of(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compare(layers: list[Layer], hidden: int, dtype: torch.dtype, case: str,
            rounds: int) -> str:  # fmt: skip
    """Returns a row of the table."""
    count, adapters = map(int, case.split(":"))
    values = torch.randn(count, hidden).to(dtype)
    rows = StepRows(count, MAX_LORAS)
    rows.fill(np.arange(count) % adapters if adapters else np.full(count, -1))

    def base() -> torch.Tensor:
        found = values
        for layer in layers:
            found = layer.base(found)
        return found

    def adapted() -> torch.Tensor:
        found = values
        for layer in layers:
            found = layer.adapted(found, rows)
        return found

    replays = count <= MOST_REPLAYED
    sides = [prepared(each, replays) for each in (base, adapted)]
    pairs = [[seconds_of(each) for each in sides] for _ in range(rounds + 1)][1:]
    best = [1e6 * min(side) / len(layers) for side in zip(*pairs, strict=True)]
    ratio = statistics.median(other / own for own, other in pairs)
    return (
        f"| {count} | {adapters} | {best[0]:.0f} | {best[1]:.0f} "
        f"| {best[1] / best[0]:.3f} | {ratio:.3f} |"
    )


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--shape", choices=SHAPES, default="0.5b")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--case", nargs="+", default=CASES, metavar="ROWS:ADAPTERS")
    options = parser.parse_args()
    dtype, shape = getattr(torch, options.dtype), SHAPES[options.shape]
    hidden, wide, query, key = shape
    weights = hidden * (3 * wide + 2 * query + 2 * key) * dtype.itemsize
    count = max(WEIGHTS_BYTES // weights, 2)
    layers = [Layer(shape, dtype, options.rank) for _ in range(count)]
    print(f"{count} layers of {shape}, {dtype}, rank {options.rank}")
    print("| rows | adapters | base, µs | adapters, µs | minima | median of pairs |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for case in options.case:
        print(compare(layers, hidden, dtype, case, options.rounds), flush=True)


if __name__ == "__main__":
    main()

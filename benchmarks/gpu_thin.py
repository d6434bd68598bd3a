"""Times products of few rows, and a stack of decoder layers; needs a CUDA device.

usage: python benchmarks/gpu_thin.py [--seconds 60] [--rounds 9] [--out FILE.json]

The products are those of Qwen3-0.6B and Llama-3.1-8B in bfloat16, each by cuBLAS with
the kernels around it, and by several plans of `thin_product`. A round replays one CUDA
graph of a chain of such calls, over more weights than the cache holds; times are
medians for one call. First each plan's result is compared with float64. Kernels are
compiled in all processors at once beforehand.

The stack is a decode of one request of 1024 tokens through the layers, with random
weights; its products use the plans that were fastest.
"""

import argparse
import gc
import itertools
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpu_splits
import torch
from gpu import MODELS, Model, copied_bytes_a_second, facts, kernels, paged
from gpu import Clock as CopyClock
from torch.nn import functional

DTYPE = torch.bfloat16
EPSILON = 1e-6
ROWS = (2, 4, 8, 16)
LEAST_BYTES = 300 << 20
"""Weights of a chain of calls; more than any cache."""
PLANS = {
    1: [(4, 1024, 4, 0), (2, 2048, 4, 0), (4, 2048, 4, 0), (8, 1024, 4, 0)],
    2: [
        *((4, 1024, 4, 0), (2, 1024, 4, 0), (4, 512, 4, 0)),
        *((16, 256, 4, 4), (8, 512, 4, 4)),
    ],
    4: [
        *((4, 512, 4, 0), (2, 1024, 4, 0)),
        *((16, 256, 4, 4), (8, 512, 4, 4), (32, 256, 4, 4)),
    ],
    8: [
        *((2, 512, 4, 0),),
        *((16, 256, 4, 4), (8, 512, 4, 4), (32, 256, 4, 4)),
    ],
    16: [
        *((16, 256, 4, 4), (8, 512, 4, 4), (32, 256, 4, 3), (32, 128, 4, 6)),
    ],
}
"""Plans by the number of rows; halves of the tile if it is gated."""
MOST_SHARED = 200 << 10


@dataclass(frozen=True, slots=True)
class Product:
    """A linear layer of a model, with what is around it."""

    model: str
    name: str
    width: int
    outs: int
    normed: bool = False
    gated: bool = False
    adds: bool = False


def products_of(model: Model) -> list[Product]:
    hidden, heads = model.hidden, model.heads * model.dim
    both = heads + 2 * model.kv_heads * model.dim
    return [
        Product(model.name, "qkv", hidden, both, normed=True),
        Product(model.name, "output", heads, hidden, adds=True),
        Product(model.name, "gate_up", hidden, 2 * model.intermediate, True, True),
        Product(model.name, "down", model.intermediate, hidden, adds=True),
        Product(model.name, "logits", hidden, model.vocab_size, normed=True),
    ]


def plans_of(product: Product, rows: int) -> Iterator[tuple[int, ...]]:
    """Yields the plans that fit into registers and shared memory."""
    sides = 2 if product.gated else 1
    for tile, step, warps, stages in PLANS[rows]:
        if not stages and not step <= product.width <= 16 * step:
            continue
        halved = tile // sides if rows > 1 else tile
        shared = (halved * sides + max(rows, 16)) * step * 2 * stages
        if shared <= MOST_SHARED:
            yield halved, step, warps, stages


class Inputs:
    """Inputs of one product."""

    def __init__(
        self, product: Product, rows: int, device: torch.device, copies: int
    ) -> None:
        def randn(*shape: int) -> torch.Tensor:
            return torch.randn(shape, dtype=DTYPE, device=device)

        self.product = product
        self.values = randn(rows, product.width)
        self.norm = 1 + randn(product.width) / 8
        self.weights = [
            randn(product.outs, product.width).div_(product.width**0.5)
            for _ in range(copies)
        ]
        self.residual = randn(rows, product.outs) if product.adds else None

    def plain(self, weight: torch.Tensor) -> torch.Tensor:
        """By cuBLAS, as steps of many rows."""
        values = self.values
        if self.product.normed:
            values = kernels("norm").rms_norm(values, self.norm, EPSILON)
        if self.residual is not None:
            return self.residual.addmm_(values, weight.t())
        found = functional.linear(values, weight)
        return kernels("gated").silu_mul(found) if self.product.gated else found

    def thin(self, weight: torch.Tensor, plan: tuple[int, ...]) -> torch.Tensor:
        return thin(
            self.values,
            weight,
            plan,
            norm=self.norm if self.product.normed else None,
            gated=self.product.gated,
            residual=self.residual,
        )

    def exact(self, weight: torch.Tensor) -> torch.Tensor:
        """In float64 but for the roundings that all share."""
        values = self.values
        if self.product.normed:
            values = kernels("norm").rms_norm(values, self.norm, EPSILON)
        found = values.double() @ weight.double().t()
        if self.product.gated:
            found = kernels("gated").silu_mul(found.to(DTYPE)).double()
        return found if self.residual is None else found + self.residual.double()


def thin(
    values: torch.Tensor,
    weight: torch.Tensor,
    plan: tuple[int, ...],
    *,
    norm: torch.Tensor | None = None,
    gated: bool = False,
    residual: torch.Tensor | None = None,
) -> torch.Tensor:
    module = kernels("thin")
    found: torch.Tensor = module.thin_product(
        values,
        weight,
        module.ThinPlan(*plan),
        norm=None if norm is None else module.RowNorm(norm, EPSILON),
        gated=gated,
        residual=residual,
    )
    return found


class FakeDriver:
    """Pretends that there is a device, so that kernels are only compiled."""

    def __init__(self, capability: int) -> None:
        self._capability = capability

    def get_current_target(self) -> Any:
        compiler = __import__("triton.backends.compiler", fromlist=["GPUTarget"])
        return compiler.GPUTarget("cuda", self._capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int) -> int:
        return 0


def compile_one(task: "Task") -> str:
    """Compiles one product in this process, into Triton's cache on the disk."""
    product, rows, plan, capability = task
    triton = __import__("triton")
    triton.runtime.driver.set_active(FakeDriver(capability))
    launch = triton.JITFunction.run
    for name in ("thin", "decode", "norm", "gated"):
        kernels(name).chained = lambda _device: {"chains": True, "launch_pdl": True}
    triton.JITFunction.run = lambda kernel, *each, **options: launch(
        kernel, *each, **{**options, "warmup": True}
    )
    try:
        if product is None:
            gpu_splits.compile_variant(plan)
            return ""
        small = Inputs(product, rows, torch.device("meta"), 0)
        values = torch.empty(rows, product.width, dtype=DTYPE)
        if not plan:
            kernels("norm").rms_norm(values, values[0].clone(), EPSILON)
            if product.gated:
                found = torch.empty(rows, product.outs, dtype=DTYPE)
                kernels("gated").silu_mul(found)
            return ""
        weight = torch.empty(product.outs, product.width, dtype=DTYPE)
        small.values, small.norm = values, torch.empty(product.width, dtype=DTYPE)
        if small.residual is not None:
            small.residual = torch.empty(rows, product.outs, dtype=DTYPE)
        small.thin(weight, plan)
    except Exception as error:  # noqa: BLE001 - is reported; the others go on
        return f"{product} {rows} {plan}: {error!r}"[-300:]
    finally:
        triton.JITFunction.run = launch
    return ""


Task = tuple[Product | None, int, tuple[int, ...], int]


def kernel_of(task: Task) -> tuple[object, ...]:
    """Returns what determines a task's kernel."""
    product, rows, plan, _ = task
    if product is None:
        return rows, plan
    return product.width, product.normed, product.gated, product.adds, rows, plan


def compile_all(tasks: list[Task]) -> None:
    tasks = list({kernel_of(task): task for task in tasks}.values())
    tasks.sort(key=lambda task: -(task[0].width if task[0] else 0))
    count = max(1, min(16, os.cpu_count() or 1))
    started = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        failures = [one for one in pool.imap_unordered(compile_one, tasks) if one]
    spent = time.monotonic() - started
    print(f"compiled {len(tasks)} in {spent:.0f} s by {count}", *failures, sep="\n  ")


class Clock:
    """Times chains of calls, replayed from graphs."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds

    def seconds(self, call: Callable[[], object]) -> float:
        """Returns the median time of one replay."""
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        times: list[float] = []
        for _ in range(self._rounds + 2):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / 1000)
        return statistics.median(times[2:])


@dataclass(frozen=True, slots=True)
class Row:
    """A product's time by one plan; an empty plan is cuBLAS."""

    model: str
    product: str
    rows: int
    plan: tuple[int, ...]
    microseconds: float
    gigabytes_a_second: float
    error: float
    pieces: str = ""


def measure(
    clock: Clock, product: Product, rows: int, device: torch.device
) -> Iterator[Row]:
    size = product.width * product.outs * DTYPE.itemsize
    copies = max(2, min(24, -(-LEAST_BYTES // size)))
    inputs = Inputs(product, rows, device, copies)
    calls = list(itertools.islice(itertools.cycle(inputs.weights), max(copies, 8)))
    saved = None if inputs.residual is None else inputs.residual.clone()
    wanted = inputs.exact(inputs.weights[0])
    largest = wanted.abs().max()

    def timed(
        plan: tuple[int, ...], call: Callable[[torch.Tensor], torch.Tensor]
    ) -> Row:
        if inputs.residual is not None and saved is not None:
            inputs.residual.copy_(saved)
        found = call(inputs.weights[0]).double()
        error = float((found - wanted).abs().max() / largest)
        seconds = clock.seconds(lambda: [call(each) for each in calls]) / len(calls)
        return Row(
            *(product.model, product.name, rows, plan, seconds * 1e6),
            *(size / seconds / 1e9, error),
        )

    yield timed((), inputs.plain)
    for plan in plans_of(product, rows):
        try:
            yield timed(plan, lambda weight, plan=plan: inputs.thin(weight, plan))
        except Exception as error:  # noqa: BLE001 - is reported; the others go on
            print(f"FAILED {product} {rows} {plan}: {error!r}"[:400], flush=True)


class Stack:
    """A decode of one request through some layers with random weights."""

    def __init__(self, model: Model, layers: int, device: torch.device) -> None:
        self._model, self._layers, self._device = model, layers, device
        self._products = {
            each.name: each for each in products_of(model) if each.name != "logits"
        }
        self._weights = [
            {
                name: torch.randn(
                    each.outs, each.width, dtype=DTYPE, device=device
                ).div_(each.width**0.5)
                for name, each in self._products.items()
            }
            for _ in range(layers)
        ]
        self._norm = torch.ones(model.hidden, dtype=DTYPE, device=device)
        caches = [paged(model, 1, 1024, device) for _ in range(layers)]
        self._caches = [(*each, each[1][:, -1] * 16 + 15) for each in caches]
        self._first = torch.randn(1, model.hidden, dtype=DTYPE, device=device)
        angles = torch.rand(1, model.dim, device=device)
        self._angles = angles.cos().to(DTYPE), angles.sin().to(DTYPE)
        shape = __import__("hookline_kernels.head_shape", fromlist=["HeadNorms"])
        ones = torch.ones(model.dim, dtype=DTYPE, device=device)
        is_normed = model.name.startswith("Qwen3")
        self._heads = shape.HeadNorms(ones, ones, EPSILON) if is_normed else None

    def __call__(
        self, plans: dict[str, tuple[int, ...]], num_splits: int | None = None
    ) -> torch.Tensor:
        """Returns the hidden states; plans that are empty or not given use cuBLAS."""
        hidden = self._first.clone()
        for weights, cache in zip(self._weights, self._caches, strict=True):
            heads = self._product("qkv", weights, hidden, plans)
            attended = self._attend(heads, cache, num_splits)
            hidden = self._product("output", weights, attended, plans, hidden)
            flat = self._product("gate_up", weights, hidden, plans)
            hidden = self._product("down", weights, flat, plans, hidden)
        return hidden

    def _product(
        self,
        name: str,
        weights: dict[str, torch.Tensor],
        values: torch.Tensor,
        plans: dict[str, tuple[int, ...]],
        residual: torch.Tensor | None = None,
    ) -> torch.Tensor:
        product, weight = self._products[name], weights[name]
        norm = self._norm if product.normed else None
        if plans.get(name):
            return thin(
                values,
                weight,
                plans[name],
                norm=norm,
                gated=product.gated,
                residual=residual,
            )
        if norm is not None:
            values = kernels("norm").rms_norm(values, norm, EPSILON)
        if residual is not None:
            return residual.addmm_(values, weight.t())
        found = functional.linear(values, weight)
        return kernels("gated").silu_mul(found) if product.gated else found

    def _attend(
        self, heads: torch.Tensor, cache: Any, num_splits: int | None
    ) -> torch.Tensor:
        model, decode = self._model, kernels("decode")
        layer, tables, lengths, slots = cache
        sizes = [model.heads, model.kv_heads, model.kv_heads]
        query, key, value = heads.view(1, -1, model.dim).split(sizes, 1)
        kernels("rotary").rotate_and_write(
            *(query, key, value, *self._angles),
            keys=layer.keys,
            values=layer.values,
            slots=slots,
            norms=self._heads,
        )
        splits = num_splits or decode.choose_splits(
            self._device, num_seqs=1, num_kv_heads=model.kv_heads, max_seq_len=1024
        )
        return decode.decode_attention(
            query, layer, tables, lengths, num_splits=splits
        ).flatten(1)


def set_chaining(enabled: bool) -> None:
    """Lets kernels begin before the end of those in front, or not."""
    for name in ("thin", "norm", "gated", "rotary", "decode"):
        module = kernels(name)
        module.chained = kernels("chaining").chained if enabled else lambda _: {}


def best_plans(rows: list[Row], model: str, count: int) -> dict[str, tuple[int, ...]]:
    """Returns each product's fastest plan."""
    of_model = [row for row in rows if (row.model, row.rows) == (model, count)]
    fastest = sorted(of_model, key=lambda row: -row.microseconds)
    return {row.product: row.plan for row in fastest}


def time_stack(
    clock: Clock, model: Model, layers: int, rows: list[Row], device: torch.device
) -> dict[str, float]:
    """Times the stack's variants in µs for all of the model's layers."""
    stack = Stack(model, layers, device)
    best = best_plans(rows, model.name, 1)
    print(best)
    found: dict[str, float] = {}
    wanted: torch.Tensor | None = None
    variants = [
        ("cuBLAS, chained", {}, True, None),
        ("thin, chained", best, True, None),
        ("thin, chained, splits of 64", best, True, 16),
    ]
    decode = kernels("decode")
    least = decode.LEAST_SPLIT_TOKENS
    for name, plans, chained, splits in variants:
        try:
            set_chaining(chained)
            decode.LEAST_SPLIT_TOKENS = min(least, 1024 // (splits or 1))
            hidden = stack(plans, splits).double()
            wanted = hidden if wanted is None else wanted
            error = float((hidden - wanted).norm() / wanted.norm())
            seconds = clock.seconds(lambda p=plans, s=splits: stack(p, s))
            found[name] = seconds * 1e6 * model.layers / layers
            print(f"| {model.name} | {name} | {found[name]:.0f} µs | {error:.1e} |")
        except Exception as error:  # noqa: BLE001 - is reported; the others go on
            print(f"FAILED {model.name} {name}: {error!r}"[:400], flush=True)
        finally:
            set_chaining(True)
            decode.LEAST_SPLIT_TOKENS = least
    return found


def print_table(rows: list[Row], copy: float) -> None:
    """Prints cuBLAS and the two fastest plans by product, for each number of rows."""
    counts = sorted({row.rows for row in rows})
    print("| model | product |", *(f"{n}: cuBLAS, plans: µs |" for n in counts))
    for model, product in dict.fromkeys((row.model, row.product) for row in rows):
        cells = []
        for count in counts:
            key = model, product, count
            group = [row for row in rows if (row.model, row.product, row.rows) == key]
            group.sort(key=lambda row: (bool(row.plan), row.microseconds))
            told = [
                f"{row.microseconds:.1f} "
                + (",".join(map(str, row.plan)) or _share(row, copy))
                for row in group[:3]
            ]
            cells.append("; ".join(told))
        print("|", model, "|", product, "|", " | ".join(cells), "|")


def _share(row: Row, copy: float) -> str:
    return f"({row.gigabytes_a_second * 1e9 / copy:.0%})"


def guarded(name: str, work: Callable[[], Any]) -> Any:
    """Returns the work's result, or None if it fails, which is printed."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - is reported; the others go on
        print(f"FAILED {name}: {error!r}"[:400], flush=True)
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu_thin.py needs a CUDA device, and torch finds none")
    begun = time.monotonic()
    ends = begun + options.seconds
    device = torch.device("cuda", 0)
    capability = torch.cuda.get_device_capability(device)[0] * 10
    large = MODELS[-1]
    cases = [(product, 1) for product in products_of(large)] + [
        (product, rows)
        for rows in options.rows
        for model in MODELS
        for product in products_of(model)
    ]
    tasks: list[Task] = [
        (product, rows, plan, capability)
        for product, rows in cases
        for plan in ((), *plans_of(product, rows))
        if plan or product.normed
    ]
    tasks += [(None, 0, each, capability) for each in gpu_splits.variants()]
    compile_all(tasks)
    gc.collect()
    gc.freeze()
    clock, rows, stacks = Clock(options.rounds), [], {}
    copy = copied_bytes_a_second(CopyClock(device, 10), device)
    print(f"{facts(device)}; copy {copy / 1e9:.0f} GB/s")
    splits = guarded("splits", lambda: gpu_splits.measured_splits(clock, device))
    print(f"splits: {time.monotonic() - begun:.0f} s")
    torch.cuda.empty_cache()
    for number, (product, count) in enumerate(cases):
        if time.monotonic() > ends:
            print(f"out of time: {len(cases) - number} of {len(cases)} cases left")
            break
        if count != 1 and not stacks:
            stacks = {
                large.name: guarded(
                    "stack", lambda: time_stack(clock, large, 8, rows, device)
                )
            }
            torch.cuda.empty_cache()
            print(f"stack: {time.monotonic() - begun:.0f} s")
        found = guarded(
            f"{product} {count}",
            lambda p=product, c=count: list(measure(clock, p, c, device)),
        )
        rows.extend(found or [])
        torch.cuda.empty_cache()
    print(f"products: {time.monotonic() - begun:.0f} s")
    print_table(rows, copy)
    worst = max((row for row in rows if row.plan), key=lambda row: row.error)
    print("largest error:", worst)
    if options.out:
        document = {
            "about": facts(device),
            "copy_bytes_per_second": copy,
            "rows": [
                {name: getattr(row, name) for name in Row.__slots__} for row in rows
            ],
            "stacks": stacks,
            "splits": splits,
        }
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()

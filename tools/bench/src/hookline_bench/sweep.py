"""`hookline bench sweep`: how long steps of growing batches take, offline."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hookline.config.options import check_options, option
from hookline.exceptions import ConfigError
from hookline_bench.latency import ALIASES
from hookline_bench.machine_peaks import machine_peaks
from hookline_bench.offline import (
    exactly,
    opened,
    read_offline,
    vocabulary,
    without_prefix_caching,
)
from hookline_bench.options import BENCHMARK, DISABLE_TQDM, OUTPUT_JSON
from hookline_bench.random_prompts import PromptShape, id_prompts
from hookline_bench.result_file import write_json
from hookline_bench.roofline import Bend, Point, Roofline, fitted_bend
from hookline_bench.roofline_plot import roofline_plot
from hookline_offline.llm import LLM
from hookline_server.cli.output import say, table

DESCRIPTION = (
    "Measures the time between two tokens for growing batches, offline, and finds the "
    "batch size B_sat from which on it grows."
)
_DOUBLED = tuple(2**exponent for exponent in range(11))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings:
    """Options of the command."""

    batch_sizes: tuple[int, ...] = option(
        "Numbers of requests that decode together.",
        default=(),
        group=BENCHMARK,
        metavar="COUNT,…",
        commas=True,
        shown_default="1, 2, 4 … up to max-num-seqs",
    )
    input_len: int = option(
        "Number of tokens per prompt.",
        default=32,
        group=BENCHMARK,
        metavar="TOKENS",
        minimum=1,
    )
    output_len: int = option(
        "Number of tokens per completion.",
        default=64,
        group=BENCHMARK,
        metavar="TOKENS",
        minimum=3,
    )
    num_iters: int = option(
        "Number of measured batches of each size.",
        default=3,
        group=BENCHMARK,
        metavar="COUNT",
        minimum=1,
    )
    plot: str | None = option(
        "File that the roofline is drawn to, as SVG.",
        default=None,
        group="output",
        metavar="FILE",
    )
    output_json: str | None = OUTPUT_JSON()
    disable_tqdm: bool = DISABLE_TQDM()

    def __post_init__(self) -> None:
        check_options(self)
        if any(size < 1 for size in self.batch_sizes):
            raise ConfigError("batch-sizes", "must be at least 1")

    def sizes(self, most: int) -> Sequence[int]:
        """Returns the batch sizes, in order.

        Raises:
            ConfigError: One is above the most requests that the engine runs together.
        """
        if not self.batch_sizes:
            return [size for size in _DOUBLED if size <= most]
        if max(self.batch_sizes) > most:
            detail = f"{max(self.batch_sizes)} is above max-num-seqs, which is {most}"
            raise ConfigError("batch-sizes", detail)
        return sorted(set(self.batch_sizes))

    @property
    def context(self) -> float:
        """Tokens that a request attends to on average."""
        return self.input_len + self.output_len / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What was measured, and what it was expected to be.

    Attributes:
        points: The measured batch sizes.
        bend: The line fitted to them; None if their steps do not grow.
        model: What the machine's peaks allow; None for an engine without a model.
    """

    points: Sequence[Point]
    bend: Bend | None
    model: Roofline | None

    def lines(self) -> Iterable[str]:
        """Yields the lines of the report."""
        yield table([_HEADINGS, *(self._row(point) for point in self.points)])
        measured = None if self.bend is None else self.bend.batch_size
        yield f"B_sat measured: {_shown(measured)}"
        if self.model is not None:
            yield f"B_sat modelled: {_shown(self.model.saturated_at)}"
            peaks = self.model.peaks
            yield (
                f"Peaks of this machine: {peaks.flops / 1e9:.4g} GFLOP/s, "
                f"{peaks.bytes / 1e9:.4g} GB/s of weights"
            )

    def fields(self) -> dict[str, object]:
        """Returns the fields of the JSON file."""
        model = self.model
        return {
            "batch_sizes": [point.batch_size for point in self.points],
            "step_seconds": [point.seconds for point in self.points],
            "tokens_per_second": [point.tokens_per_second for point in self.points],
            "modelled_step_seconds": None
            if model is None
            else [model.seconds(point.batch_size) for point in self.points],
            "b_sat_measured": None if self.bend is None else self.bend.batch_size,
            "b_sat_modelled": None if model is None else model.saturated_at,
            "peak_flops": None if model is None else model.peaks.flops,
            "peak_bytes": None if model is None else model.peaks.bytes,
        }

    def _row(self, point: Point) -> tuple[str, ...]:
        modelled = "-"
        if self.model is not None:
            modelled = f"{self.model.seconds(point.batch_size) * 1000:.3f}"
        return (
            str(point.batch_size),
            f"{point.seconds * 1000:.3f}",
            modelled,
            f"{point.tokens_per_second:.1f}",
        )


_HEADINGS = ("batch", "step ms", "by the peaks ms", "tokens/s")


def run(argv: list[str]) -> int:
    """Measures and reports."""
    settings, config, _ = read_offline(
        "sweep", DESCRIPTION, argv, SweepSettings, ALIASES
    )
    config = without_prefix_caching(config)
    with opened(config) as llm:
        facts = llm.front_end.facts
        points = _points(llm, settings, settings.sizes(facts.max_num_seqs))
    peaks = machine_peaks(facts.model)
    model = None
    if peaks is not None:
        model = Roofline(cost=facts.model.cost, peaks=peaks, context=settings.context)
    sweep = Sweep(points=points, bend=fitted_bend(points), model=model)
    say("\n".join(sweep.lines()))
    if settings.output_json is not None:
        fields = {"model_id": config.model.model, **sweep.fields()}
        write_json(Path(settings.output_json), fields)
    if settings.plot is not None:
        title = f"Decode steps of {facts.model_name}"
        drawn = roofline_plot(title, points, sweep.bend, model)
        Path(settings.plot).write_text(drawn, encoding="utf-8")
    return 0


def _points(llm: LLM, settings: SweepSettings, sizes: Sequence[int]) -> list[Point]:
    _step_seconds(llm, settings, sizes[0])  # warm up
    bar = tqdm(sizes, desc="Batch sizes", disable=settings.disable_tqdm)
    return [
        Point(batch_size=size, seconds=_step_seconds(llm, settings, size))
        for size in bar
    ]


def _step_seconds(llm: LLM, settings: SweepSettings, batch_size: int) -> float:
    """Returns the median time between two tokens of all requests of all batches."""
    shape = PromptShape(
        input_tokens=settings.input_len, output_tokens=settings.output_len
    )
    source = np.random.default_rng(0)
    found: list[float] = []
    for _ in range(settings.num_iters):
        prompts = id_prompts(shape, batch_size, vocabulary(llm), source)
        outputs = llm.generate(
            [prompt.content for prompt in prompts],
            [exactly(each) for each in prompts],
            use_tqdm=False,
        )
        measured = (each.metrics for each in outputs if each.metrics is not None)
        found += [each.tpot_seconds for each in measured if each.tpot_seconds]
    return float(np.median(found))


def _shown(batch_size: float | None) -> str:
    return "not reached" if batch_size is None else f"{batch_size:.3g} requests"

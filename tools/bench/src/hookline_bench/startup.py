"""`hookline bench startup`: the time until a server is ready."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from hookline.config.options import check_options, option
from hookline.exceptions import ConfigError
from hookline_bench.options import BENCHMARK, DISABLE_TQDM, OUTPUT_JSON
from hookline_bench.percentiles import (
    QUARTILES_AND_TAILS,
    percentage_word,
    summarize,
)
from hookline_bench.result_file import write_json
from hookline_bench.server_start import Start, cold_start, warm_start
from hookline_server.cli.options.arguments import Arguments
from hookline_server.cli.options.derived import derived
from hookline_server.cli.options.parser import make_parser, parse_known
from hookline_server.cli.output import say

DESCRIPTION = (
    "Measures the time until a server is ready. All other options are passed to "
    "`hookline serve`."
)
WIDTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupSettings:
    """Options of the command."""

    num_iters_cold: int = option(
        "Number of starts without caches on disk.",
        default=3,
        group=BENCHMARK,
        metavar="COUNT",
        minimum=0,
    )
    num_iters_warmup: int = option(
        "Number of starts that fill the caches before the warm starts.",
        default=1,
        group=BENCHMARK,
        metavar="COUNT",
        minimum=0,
    )
    num_iters_warm: int = option(
        "Number of starts with caches.",
        default=3,
        group=BENCHMARK,
        metavar="COUNT",
        minimum=0,
    )
    ready_check_timeout: float = option(
        "Maximum time to wait until a server is ready.",
        default=600.0,
        flag="ready-check-timeout-sec",
        group=BENCHMARK,
        metavar="SECONDS",
        above=0,
    )
    output_json: str | None = OUTPUT_JSON()
    disable_tqdm: bool = DISABLE_TQDM()

    def __post_init__(self) -> None:
        check_options(self)
        if not self.num_iters_cold + self.num_iters_warm:
            raise ConfigError(
                "num-iters-warm", "must be at least 1 if num-iters-cold is 0"
            )


STARTUP_OPTIONS = tuple(derived(StartupSettings, "bench"))


def run(argv: list[str]) -> int:
    """Measures and reports."""
    parser = make_parser("bench startup", DESCRIPTION, STARTUP_OPTIONS)
    found, serve_argv = parse_known(parser, argv)
    settings = Arguments(found, ()).make("bench", StartupSettings)
    starts = _starts(settings, serve_argv)
    say("\n".join(_lines(starts)))
    if settings.output_json is not None:
        write_json(Path(settings.output_json), _fields(starts))
    return 0


def _starts(
    settings: StartupSettings, argv: Sequence[str]
) -> Mapping[str, Sequence[Start]]:
    plan = (
        ("cold", cold_start, settings.num_iters_cold),
        ("warmup", warm_start, settings.num_iters_warmup),
        ("warm", warm_start, settings.num_iters_warm),
    )
    total = sum(count for _, _, count in plan)
    starts: dict[str, list[Start]] = {"cold": [], "warmup": [], "warm": []}
    with tqdm(total=total, disable=settings.disable_tqdm) as bar:
        for name, start, count in plan:
            bar.set_description(f"{name} starts")
            for _ in range(count):
                starts[name].append(start(argv, settings.ready_check_timeout))
                bar.update()
    del starts["warmup"]
    return {name: done for name, done in starts.items() if done}


def _samples(starts: Sequence[Start]) -> dict[str, list[float]]:
    """Returns the seconds of each phase; the whole start comes first."""
    samples = {"startup": [start.seconds for start in starts]}
    for phase in dict.fromkeys(name for start in starts for name in start.phases):
        samples[phase] = [start.phases.get(phase, 0.0) for start in starts]
    return samples


def _lines(starts: Mapping[str, Sequence[Start]]) -> Iterable[str]:
    yield "=" * WIDTH
    yield "STARTUP TIME BENCHMARK RESULTS"
    yield "=" * WIDTH
    for name, done in starts.items():
        yield f"\n{name.capitalize()} startup:"
        samples = _samples(done)
        for what, seconds in samples.items():
            yield f"Avg {what} time: {summarize(seconds, ()).mean:.2f} seconds"
        for what, seconds in samples.items():
            yield f"{what.capitalize()} time percentiles:"
            found = summarize(seconds, QUARTILES_AND_TAILS).percentiles
            for percentage, value in found.items():
                yield f"  {percentage_word(percentage)}%: {value:.2f} seconds"
    yield "=" * WIDTH


def _fields(starts: Mapping[str, Sequence[Start]]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, done in starts.items():
        for what, seconds in _samples(done).items():
            key = f"{name}_{what.replace(' ', '_')}"
            summary = summarize(seconds, QUARTILES_AND_TAILS)
            fields[f"avg_{key}_time"] = summary.mean
            fields[f"{key}_times"] = seconds
            fields[f"{key}_percentiles"] = {
                percentage_word(each): value
                for each, value in summary.percentiles.items()
            }
    return fields

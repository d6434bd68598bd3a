"""`hookline bench`: finds the benchmark."""

from collections.abc import Callable, Mapping
from importlib import import_module

from hookline_server.cli.output import say
from hookline_server.cli.parser import UsageError

BENCHMARKS: Mapping[str, str] = {
    "latency": "time for one batch, offline",
    "throughput": "requests and tokens a second, offline",
    "serve": "load for any server with the OpenAI API",
    "startup": "time until a server is ready, cold and warm",
}


def run(argv: list[str]) -> int:
    """Runs one of the benchmarks."""
    if not argv or argv[0] in ("-h", "--help"):
        say(_help())
        return 0
    name, *rest = argv
    if name not in BENCHMARKS:
        there = ", ".join(BENCHMARKS)
        raise UsageError(f"unknown benchmark {name!r}; there is {there}")
    # Only the benchmark that runs is imported.
    bench: Callable[[list[str]], int] = import_module(f"hookline_bench.{name}").run
    return bench(rest)


def _help() -> str:
    benchmarks = "\n".join(f"  {name:<12}{text}" for name, text in BENCHMARKS.items())
    return (
        "usage: hookline bench BENCHMARK [OPTIONS]\n\n"
        f"benchmarks:\n{benchmarks}\n\n"
        "`hookline bench BENCHMARK --help` tells the options of a benchmark."
    )

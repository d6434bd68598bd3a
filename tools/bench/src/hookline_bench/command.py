"""`hookline bench`: runs one of the benchmarks."""

from collections.abc import Callable
from importlib import import_module

from hookline_bench import BENCHMARKS
from hookline_registry.spelling import unknown
from hookline_server.cli.errors import UsageError
from hookline_server.cli.output import say


def run(argv: list[str]) -> int:
    """Runs one of the benchmarks."""
    if not argv or argv[0] in ("-h", "--help"):
        say(_help())
        return 0
    name, *rest = argv
    if name not in BENCHMARKS:
        raise UsageError(unknown("benchmark", name, BENCHMARKS))
    # Only the benchmark that runs is imported.
    bench: Callable[[list[str]], int] = import_module(f"hookline_bench.{name}").run
    return bench(rest)


def _help() -> str:
    benchmarks = "\n".join(f"  {name:<12}{text}" for name, text in BENCHMARKS.items())
    return (
        "usage: hookline bench BENCHMARK [OPTIONS]\n\n"
        f"benchmarks:\n{benchmarks}\n\n"
        "`hookline bench BENCHMARK --help` shows the options of a benchmark."
    )

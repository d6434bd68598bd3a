"""`hookline bench`: measures an engine or a server."""

from collections.abc import Mapping

from hookline_server.cli.command import Command

BENCHMARKS: Mapping[str, str] = {
    "latency": "latency of one batch, offline",
    "throughput": "requests and tokens per second, offline",
    "serve": "any server with the OpenAI API under load",
    "startup": "time until a server is ready, cold and warm",
    "sweep": "steps of growing batches, and where they saturate, offline",
    "compare": "what changed between two results",
}

COMMAND = Command(
    summary="measure an engine or a server",
    module="hookline_bench.command",
    subcommands=BENCHMARKS,
    completes=True,
)

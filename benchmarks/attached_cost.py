"""What Hookline costs vLLM: servers which get a load in turns.

    python benchmarks/attached_cost.py --vllm VENV --model FOLDER [--rounds 10]
    python benchmarks/attached_cost.py --record 256

One server is vLLM without statistics, one is plain, with its own Prometheus logger, one
has Hookline attached, with all of the loggers that are installed, and one, only with
`--sides below plain`, is `hookline serve --engine vllm`. All of them live at once, so
that their turns run under the same load of the machine.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from compare_sides import VLLM_ENVIRONMENT
from processor_time import per_1000_tokens
from server_pairs import Load, Turn, take_turn

from hookline_server.listening import listen
from hookline_testing.attached_vllm import AttachedServer
from hookline_testing.fake_vllm import EngineCoreOutput, IterationStats, SchedulerStats
from hookline_testing.server_process import Server

QUIET, PLAIN, ATTACHED = "without statistics", "plain", "attached"
BELOW = "below"
LOGGERS = ("prometheus", "logging", "insight", "live", "request_log")
START_SECONDS = 300.0
REST_SECONDS = 2.0
"""Before a turn: vLLM's processes spin for a while after their last step."""


def free_port() -> int:
    """Returns a port on which nobody listens."""
    with listen("127.0.0.1", 0) as bound:
        port: int = bound.getsockname()[1]
        return port


@contextmanager
def serving(
    venv: Path,
    model: Path,
    side: str,
    *,
    loggers: Sequence[str],
    options: Sequence[str],
    folder: Path,
) -> Iterator[Server]:
    """Runs a server as long as the block."""
    port, log = free_port(), folder / f"{side}.log"
    common = ("--port", str(port), "--served-model-name", "bench")
    limits = ("--max-model-len", "1024", "--max-num-seqs", "256", *options)
    if side == BELOW:
        command = [
            *(str(venv / "bin" / "hookline"), "serve", "--engine", "vllm"),
            *("--model", str(model), "--log-level", "warning", *common, "--", *limits),
        ]
    else:
        command = [
            *(str(venv / "bin" / "vllm"), "serve", str(model), *common, *limits),
            "--disable-uvicorn-access-log",
            *(("--disable-log-stats",) if side == QUIET else ()),
        ]
    attached = {
        "VLLM_PLUGINS": "hookline",
        "HOOKLINE_STAT_LOGGERS": ",".join(loggers),
        "HOOKLINE_CONFIG": str(_options(loggers, folder)),
    }
    variables = {**os.environ, **VLLM_ENVIRONMENT, "OMP_NUM_THREADS": "2"}
    variables |= attached if side == ATTACHED else {"VLLM_PLUGINS": ""}
    with log.open("w") as output:
        process = subprocess.Popen(  # noqa: S603 - the user's own vLLM
            command,
            env=variables,
            stdout=output,
            stderr=output,
            text=True,
            start_new_session=True,
        )
        try:
            server = Server(process, log)
            server.port = port
            _wait(server)
            yield server
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _options(loggers: Sequence[str], folder: Path) -> Path:
    file = folder / "hookline.yaml"
    options = ""
    if "request_log" in loggers:
        path = folder / "requests.jsonl"
        options = f"stat-logger-option: {{request_log: {{path: {path}}}}}\n"
    file.write_text(options or "{}\n", "utf-8")
    return file


def _wait(server: Server) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and server.process.poll() is None:
        with suppress(OSError), urlopen(f"http://127.0.0.1:{server.port}/health"):
            return
        time.sleep(0.5)
    raise RuntimeError(server.log.read_text("utf-8")[-2000:])


def compare(
    servers: Mapping[str, Server], model: Path, load: Load, rounds: int, until: float
) -> Mapping[str, list[Turn]]:
    """Gives each server its turn in each round; the first round only warms them.

    No round begins after `until`, on the monotonic clock.
    """
    turns: dict[str, list[Turn]] = {side: [] for side in servers}
    sides = list(servers)
    for number in range(rounds + 1):
        if time.monotonic() > until:
            break
        shift = number % len(sides)
        for side in (*sides[shift:], *sides[:shift]):
            time.sleep(REST_SECONDS)
            turn = take_turn(servers[side], model, load)
            if number:
                turns[side].append(turn)
        if number:
            print(
                "  ".join(
                    f"{side} {told[-1].speed:6.0f} tok/s "
                    f"({per_1000_tokens(told[-1].spent, told[-1].tokens)})"
                    for side, told in turns.items()
                ),
                flush=True,
            )
    return turns


def report(turns: Mapping[str, list[Turn]]) -> None:
    """Prints the medians of the rounds' ratios, and where the time was spent.

    vLLM's engine and its workers spin while they wait for each other: the processor
    time of the API server, `main`, is the steadiest.
    """
    for ours, theirs in product((ATTACHED, BELOW), (PLAIN, QUIET)):
        pairs = list(zip(turns.get(ours, ()), turns.get(theirs, ()), strict=False))
        if not pairs:
            continue
        speed = [own.speed / other.speed for own, other in pairs]
        spent = [
            own.processor_seconds / other.processor_seconds for own, other in pairs
        ]
        shown = {"speed": speed, "processor time": spent}
        for kind in sorted(pairs[0][0].spent.keys() & pairs[0][1].spent.keys()):
            if all(other.spent[kind] for _, other in pairs):
                shown[f"processor time of {kind}"] = [
                    own.spent[kind] / other.spent[kind] for own, other in pairs
                ]
        for name, ratios in shown.items():
            print(
                f"{ours} / {theirs}: {name} {statistics.median(ratios):.3f} "
                f"({min(ratios):.3f} to {max(ratios):.3f})"
            )
    for side, told in turns.items():
        spent_by: Counter[str] = Counter()
        for turn in told:
            spent_by.update(turn.spent)
        tokens = sum(turn.tokens for turn in told)
        print(
            f"{side}: ms of processor time per 1000 tokens: "
            f"{sum(spent_by.values()) * 1e6 / tokens:.0f} = "
            f"{per_1000_tokens(spent_by, tokens)}"
        )


def time_records(running: int, steps: int) -> None:
    """Prints how long vLLM's thread is in `record()`, while the loggers run.

    The engine is a fake, whose steps take 5 ms.
    """
    took: list[int] = []
    with closing(AttachedServer()) as server:
        server.wait_until_begun()
        names = [f"r-{number}" for number in range(running)]
        for name in names:
            server.vllm.add(name)
        record = server.vllm.stat_logger.record
        for _ in range(steps):
            outputs = [EngineCoreOutput(name, [1]) for name in names]
            server.vllm.processor.process_outputs(outputs, server.vllm.seconds)
            state, sums = SchedulerStats(running), IterationStats()
            begun = time.perf_counter_ns()
            record(state, sums)
            took.append(time.perf_counter_ns() - begun)
            time.sleep(0.005)
    took.sort()
    for share in (50, 99):
        print(f"record() p{share}: {took[share * steps // 100] / 1000:.1f} us")


def main() -> None:
    """Compares the sides."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers end, too
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", type=Path, help="its environment")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--record", type=int, help="requests of a fake engine instead")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3600.0, help="in all")
    parser.add_argument("--requests", type=int, default=128)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--sides", nargs="+", default=[QUIET, PLAIN, ATTACHED])
    parser.add_argument("--vllm-option", action="append", default=[])
    parser.add_argument("--loggers", default=",".join(LOGGERS))
    options = parser.parse_args()
    if options.record:
        os.environ["HOOKLINE_STAT_LOGGERS"] = "prometheus,insight,live"
        time_records(options.record, 2000)
        return
    load = Load(
        (
            f"--num-prompts={options.requests}",
            *("--random-input-len=64", "--random-output-len=64"),
        ),
        options.concurrency,
    )
    loggers, until = options.loggers.split(","), time.monotonic() + options.seconds
    with TemporaryDirectory() as folder, ExitStack() as stack:
        servers = {
            side: stack.enter_context(
                serving(
                    options.vllm,
                    options.model,
                    side,
                    loggers=loggers,
                    options=options.vllm_option,
                    folder=Path(folder),
                )
            )
            for side in options.sides
        }
        report(compare(servers, options.model, load, options.rounds, until))


if __name__ == "__main__":
    main()

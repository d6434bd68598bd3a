"""Two servers at once, which get the same load in turns (A B B A …).

Adjacent turns run under the same load of the machine, so their ratio is more reliable
than their speeds. The load comes from `hookline bench serve` on the same machine.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from hookline_testing.server_process import Server, serving

SHORT_TOKENS = 32


class Load(NamedTuple):
    """What the client sends: options of `hookline bench serve`."""

    options: tuple[str, ...]
    concurrency: int


class Sides(NamedTuple):
    """Options of the two servers; the first is expected to be faster."""

    first: tuple[str, ...]
    second: tuple[str, ...]


def short_load(requests: int, concurrency: int) -> Load:
    """Short random prompts, and completions of 64 tokens."""
    return Load(
        (
            f"--num-prompts={requests}",
            f"--random-input-len={SHORT_TOKENS}",
            "--random-output-len=64",
            "--prompt-token-ids",
        ),
        concurrency,
    )


def speed(server: Server, model: Path, load: Load) -> float:
    """Sends the load; returns output tokens per second."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        subprocess.run(  # noqa: S603 - no input of anyone else
            [
                *(sys.executable, "-m", "hookline_server", "bench", "serve"),
                *("--port", str(server.port), "--tokenizer", str(model)),
                *("--max-concurrency", str(load.concurrency), "--temperature=0"),
                *("--disable-tqdm", "--output-json", str(file), *load.options),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        result = json.loads(file.read_text("utf-8"))
    assert not result["failed"], "requests failed"
    return float(result["output_throughput"])


def compare(sides: Sides, model: Path, loads: Sequence[Load]) -> None:
    """Measures one pair for each load but the first, which warms the servers."""
    common = ("--port=0", f"--model={model}", "--max-model-len=1024")
    threads = {"OMP_NUM_THREADS": "2"}  # the options take precedence
    with ExitStack() as stack:
        servers = [
            stack.enter_context(serving(*common, *side, environment=threads))
            for side in sides
        ]
        for server in servers:
            speed(server, model, loads[0])
        ratios = []
        for number, load in enumerate(loads[1:]):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            speeds = {at: speed(servers[at], model, load) for at in order}
            ratios.append(speeds[0] / speeds[1])
            print(
                f"{speeds[0]:8.0f} {speeds[1]:8.0f} tok/s  ratio {ratios[-1]:.2f}",
                flush=True,
            )
    print(
        f"median ratio {statistics.median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f}); first: {' '.join(sides.first)}; "
        f"second: {' '.join(sides.second)}"
    )

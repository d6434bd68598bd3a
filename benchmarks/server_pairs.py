"""Two servers at once, which get the same load in turns (A B B A …).

Adjacent turns run under the same load of the machine, so their ratio is more reliable
than their speeds. The load comes from `hookline bench serve` on the same machine.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from processor_time import per_1000_tokens, processor_seconds, spent_since

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


class Turn(NamedTuple):
    """What one turn of one server gave.

    Attributes:
        speed: Output tokens per second.
        spent: Processor seconds of the server's processes that live on, by their kind.
            On a busy machine they are a steadier measure than the speed.
        tokens: Output tokens.
    """

    speed: float
    spent: dict[str, float]
    tokens: int

    @property
    def processor_seconds(self) -> float:
        """Processor time of all processes."""
        return sum(self.spent.values())


def take_turn(server: Server, model: Path, load: Load) -> Turn:
    """Sends the load."""
    before = processor_seconds(server.process.pid)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        subprocess.run(  # noqa: S603 - no input of anyone else
            [
                *(sys.executable, "-P", "-m", "hookline_server", "bench", "serve"),
                *("--port", str(server.port), "--tokenizer", str(model)),
                *("--max-concurrency", str(load.concurrency), "--temperature=0"),
                *("--disable-tqdm", "--output-json", str(file), *load.options),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        result = json.loads(file.read_text("utf-8"))
    # Nothing may be left of a few random tokens as a text.
    assert result["failed"] * 50 <= result["completed"], "requests failed"
    after = processor_seconds(server.process.pid)
    speed, tokens = result["output_throughput"], result["total_output_tokens"]
    return Turn(float(speed), spent_since(before, after), int(tokens))


def compare(sides: Sides, model: Path, loads: Sequence[Load]) -> None:
    """Measures one pair for each load but the first, which warms the servers."""
    common = ("--port=0", f"--model={model}", "--max-model-len=1024")
    threads = {"OMP_NUM_THREADS": "2"}  # the options take precedence
    pairs: list[tuple[Turn, Turn]] = []
    with ExitStack() as stack:
        servers = [
            stack.enter_context(serving(*common, *side, environment=threads))
            for side in sides
        ]
        for server in servers:
            take_turn(server, model, loads[0])
        for number, load in enumerate(loads[1:]):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            turns = {at: take_turn(servers[at], model, load) for at in order}
            pairs.append((turns[0], turns[1]))
            print(
                "  ".join(
                    f"{turns[at].speed:6.0f} tok/s {turns[at].processor_seconds:5.2f} s"
                    for at in (0, 1)
                ),
                flush=True,
            )
    print(f"first: {' '.join(sides.first)}; second: {' '.join(sides.second)}")
    for name, ratios in (
        ("speed", [first.speed / second.speed for first, second in pairs]),
        (
            "processor time",
            [
                first.processor_seconds / second.processor_seconds
                for first, second in pairs
            ],
        ),
    ):
        median = statistics.median(ratios)
        print(
            f"median ratio of {name} {median:.3f} "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )
    firsts = [first for first, _ in pairs]
    seconds = [second for _, second in pairs]
    for name, side in (("first", firsts), ("second", seconds)):
        spent: Counter[str] = Counter()
        for turn in side:
            spent.update(turn.spent)
        shown = per_1000_tokens(spent, sum(turn.tokens for turn in side))
        print(f"{name}: ms of processor time per 1000 tokens: {shown}")

"""Simulates many engines behind several front ends, in virtual time.

usage: python benchmarks/cluster.py modes|growth|plots [--requests 10000]
           [--engines 64] [--kinds uniform …] [--data docs/plots/cluster.json]

modes    64 engines: each way of balancing, with one front end and with four, on each
         kind of traffic. 100 000 requests take about two minutes a run, and there are
         24 runs; the default is a tenth
growth   1 to 64 engines with four front ends, on conversations: throughput, latency and
         messages as engines grow
plots    draws the numbers in --data next to it, as SVG

Front ends, placement, schedulers and KV caches are the product's; the model, the links
and the traffic are simulated (`hookline_testing.cluster`). A run is repeated exactly by
its seed. `modes` and `growth` print a row for each run and keep it in --data.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from bar_plot import bar_plot
from line_plot import line_plot

from hookline.config import LoadBalancing
from hookline_testing.cluster.cluster import Cluster
from hookline_testing.cluster.spec import ClusterSpec
from hookline_testing.cluster.tally import Result
from hookline_testing.cluster.traffic import (
    Bursts,
    Conversations,
    Mixed,
    Traffic,
    Uniform,
)

DATA = Path(__file__).parents[1] / "docs/plots/cluster.json"
SEED = 1
GROUPS = 256
CACHE_BLOCKS = 4096
"""Of 16 tokens: one engine's cache has room for a sixth of all groups' prefixes beside
what runs."""
Data = dict[str, dict[str, Result]]
"""Runs by what they are for, and by their parameters."""
SIZES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of traffic.

    Attributes:
        make: Makes it of a rate in requests per second, and of a seed.
        rate: Requests per second of each engine, which keep it about 85 % busy.
    """

    make: Callable[[float, int], Traffic]
    rate: float


def conversations(rate: float, seed: int) -> Traffic:
    return Conversations(rate, seed, groups=GROUPS)


KINDS = {
    "uniform": Kind(make=Uniform, rate=34.0),
    "mixed": Kind(make=Mixed, rate=25.0),
    "bursts": Kind(make=Bursts, rate=20.0),
    "conversations": Kind(make=conversations, rate=34.0),
}


def run(
    kind: str, balancing: LoadBalancing, *, engines: int, front_ends: int, requests: int
) -> Result:
    """Runs one simulation and prints its row."""
    spec = ClusterSpec(
        engines=engines,
        front_ends=front_ends,
        balancing=balancing,
        cache_blocks=CACHE_BLOCKS,
    )
    traffic = KINDS[kind].make(KINDS[kind].rate * engines, SEED)
    began = time.perf_counter()
    result = Cluster(spec, traffic, seed=SEED).serve(requests)
    print(
        f"{kind:14}{balancing:12} {engines:2} engines {front_ends} front ends "
        f"{row(result)} in {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    return result


def row(result: Result) -> str:
    """Formats a run for the terminal."""
    ttft, e2e = (
        " ".join(f"{1e3 * value:5.0f}" for value in values.values())
        for values in (result.ttft_seconds, result.e2e_seconds)
    )
    return (
        f"{result.requests_per_second:6.0f}/s ttft {ttft} e2e {e2e} ms "
        f"hits {result.hit_ratio:.2f} fair {result.engine_fairness:.3f} "
        f"{result.client_fairness:.3f} residue {result.residue}"
    )


def modes(kinds: Sequence[str], engines: int, requests: int) -> dict[str, Result]:
    return {
        f"{kind}/{balancing}/{front_ends}": run(
            kind, balancing, engines=engines, front_ends=front_ends, requests=requests
        )
        for kind in kinds
        for balancing in LoadBalancing
        for front_ends in (1, 4)
    }


def growth(requests: int) -> dict[str, Result]:
    """At every size each engine has as many requests, so that runs last as long."""
    return {
        f"{balancing}/{engines}": run(
            "conversations",
            balancing,
            engines=engines,
            front_ends=4,
            requests=requests * engines // SIZES[-1],
        )
        for balancing in LoadBalancing
        for engines in SIZES
    }


def plots(data: Data, folder: Path) -> None:
    """Draws what the data has."""
    if "modes" in data:
        text = bar_plot(
            "99th percentile of the time to the first token, ms", _ttft(data["modes"])
        )
        (folder / "cluster-modes.svg").write_text(text)
    if "growth" in data:
        for name, title, value in (
            ("cluster-growth.svg", "TTFT p99, ms, by engines", _ttft_p99),
            ("cluster-hits.svg", "Part of prompts found in caches, by engines", _hits),
        ):
            lines = {
                str(each): [value(data["growth"][f"{each}/{size}"]) for size in SIZES]
                for each in LoadBalancing
            }
            (folder / name).write_text(line_plot(title, SIZES, lines))


def _ttft(rows: Mapping[str, Result]) -> dict[str, dict[str, float]]:
    return {
        kind: {
            f"{balancing} × {front_ends}": _ttft_p99(
                rows[f"{kind}/{balancing}/{front_ends}"]
            )
            for balancing in LoadBalancing
            for front_ends in (1, 4)
        }
        for kind in KINDS
    }


def _ttft_p99(result: Result) -> float:
    return 1e3 * result.ttft_seconds["99"]


def _hits(result: Result) -> float:
    return result.hit_ratio


def read(path: Path) -> Data:
    """Reads the runs of a file; none if there is no such file."""
    return msgspec.json.decode(path.read_bytes(), type=Data) if path.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("modes", "growth", "plots"))
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--engines", type=int, default=64)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    data = read(options.data)
    if options.what == "plots":
        plots(data, options.data.parent)
        return
    if options.what == "modes":
        runs = modes(options.kinds, options.engines, options.requests)
    else:
        runs = growth(options.requests)
    data.setdefault(options.what, {}).update(runs)
    options.data.write_bytes(msgspec.json.format(msgspec.json.encode(data)) + b"\n")


if __name__ == "__main__":
    main()

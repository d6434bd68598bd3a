"""Simulates many engines behind several front ends, in virtual time.

usage: python benchmarks/cluster.py modes|growth|day|cost|plots [--requests 4000]
           [--engines 16] [--kinds uniform …] [--data docs/plots/cluster.json]

modes    each way of balancing, with one front end and with four, on each kind of
         traffic: 24 runs. 100 000 requests of 64 engines take nine minutes a run
growth   1 to 64 engines with four front ends, on conversations; --requests are those
         of 64 engines, and fewer engines have as many each
day      engines come and go with a load that rises and falls: `Scaler` decides
cost     processor time of placing a request, and of an output, for 2 to 64 engines
plots    draws the numbers in --data next to it, as SVG

Front ends, placement, schedulers and KV caches are the product's; the model, the links
and the traffic are simulated (`hookline_testing.cluster`). A run is repeated exactly by
its seed. `modes` and `growth` print a row for each run and keep it in --data.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from cluster_cost import SIZES as COST_SIZES
from cluster_cost import Cost, cost
from cluster_day import day
from cluster_plots import write_plots

from hookline_cluster.config import LoadBalancing
from hookline_testing.cluster.autoscaling import Moment
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
SIZES = (1, 4, 16, 64)


@dataclass(slots=True, kw_only=True)
class Data:
    """What the parts have found; runs by their parameters."""

    modes: dict[str, Result] = field(default_factory=dict)
    growth: dict[str, Result] = field(default_factory=dict)
    day: list[Moment] = field(default_factory=list)
    cost: list[Cost] = field(default_factory=list)


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ("modes", "growth", "day", "cost", "plots")
    parser.add_argument("what", choices=parts)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--engines", type=int, default=16)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    path: Path = options.data
    data = (
        msgspec.json.decode(path.read_bytes(), type=Data) if path.exists() else Data()
    )
    match options.what:
        case "modes":
            data.modes |= modes(options.kinds, options.engines, options.requests)
        case "growth":
            data.growth = growth(options.requests)
        case "day":
            data.day = day()
        case "cost":
            data.cost = [cost(engines) for engines in COST_SIZES]
        case _:
            write_plots(path.parent, data.modes, data.growth, data.day)
            return
    path.write_bytes(msgspec.json.format(msgspec.json.encode(data)) + b"\n")


if __name__ == "__main__":
    main()

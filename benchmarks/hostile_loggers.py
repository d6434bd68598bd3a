"""Measures throughput and inter-token times with misbehaving loggers.

usage: python benchmarks/hostile_loggers.py [--requests 64] [--turns 3]

Each row is the demo model with one hostile logger and Prometheus; rows take turns, and
medians over the turns are printed. The engine runs in a separate process, as in
serving. `holds the lock` computes in C for about 50 ms per call without releasing the
GIL: that slows the front end down, which no queue can prevent.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from hookline import LLM, EngineConfig, SamplingParams
from hookline.config import ObserverConfig
from hookline.events import StepOutput
from hookline.transport.engine_client import Received
from hookline_testing import PluginSite

LOGGER = """
import threading
from hookline import hookimpl

forever = threading.Event()
held = []


@hookimpl
def step_finished(step):
    {harm}
"""
HARMS = {
    "none": "pass",
    "raises": "raise RuntimeError('on purpose')",
    "sleeps 10 s": "forever.wait(10)",
    "blocks for ever": "forever.wait()",
    "allocates": "held[:] = [bytes(64 * 2**20)]",
    "holds the lock": "held[:] = [bytearray(64 * 2**20)]",
}


class Gaps:
    """Seconds between consecutive steps' tokens, on the engine's clock."""

    def __init__(self, llm: LLM) -> None:
        self.seconds: list[float] = []
        self._last: int | None = None
        self._take = llm.front_end.on_message
        llm.front_end.on_message = self.take  # type: ignore[method-assign]

    def take(self, received: Received) -> None:
        if isinstance(received, StepOutput):
            if received.events.new_tokens and self._last is not None:
                self.seconds.append((received.at - self._last) / 1e9)
            self._last = received.at if received.events.new_tokens else None
        self._take(received)

    def quantile(self, share: float) -> float:
        return sorted(self.seconds)[int(share * (len(self.seconds) - 1))]


def measure(site: PluginSite, name: str, requests: int) -> tuple[float, float, float]:
    """Returns output tokens per second, and p50 and p99 of inter-token times in ms."""
    config = EngineConfig(
        in_process=False,
        observers=ObserverConfig(stat_loggers=(name, "prometheus")),
    )
    params = SamplingParams(temperature=0.0, max_tokens=100, ignore_eos=True)
    prompts = [[at % 4000, *range(5, 60)] for at in range(requests)]
    llm = LLM.from_config(config)
    llm.generate(prompts[:4], params, use_tqdm=False)
    gaps = Gaps(llm)
    start = time.perf_counter()
    llm.generate(prompts, params, use_tqdm=False)
    seconds = time.perf_counter() - start
    site.module(name).forever.set()
    llm.close()
    site.forget()
    return requests * 100 / seconds, gaps.quantile(0.5) * 1e3, gaps.quantile(0.99) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    rows: dict[str, list[tuple[float, float, float]]] = {harm: [] for harm in HARMS}
    with tempfile.TemporaryDirectory() as folder, PluginSite(Path(folder)) as site:
        for number, harm in enumerate(HARMS.values()):
            site.install(f"hostile{number}", LOGGER.format(harm=harm))
        for _ in range(options.turns):
            for number, harm in enumerate(HARMS):
                rows[harm].append(measure(site, f"hostile{number}", options.requests))
    print(f"{'hostile logger':18}{'tokens/s':>10}{'p50 ms':>10}{'p99 ms':>10}")
    for harm, runs in rows.items():
        speed, p50, p99 = (
            statistics.median(column) for column in zip(*runs, strict=True)
        )
        print(f"{harm:18}{speed:10.0f}{p50:10.2f}{p99:10.2f}")


if __name__ == "__main__":
    main()

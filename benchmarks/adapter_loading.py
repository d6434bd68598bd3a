"""Compares times between tokens while a large adapter is loaded, and while none is.

usage: python benchmarks/adapter_loading.py --model FOLDER [--rounds 10] [--rank 256]

A server streams to 15 clients. In every second round an adapter is loaded from disk
meanwhile, and unloaded after it. Prints the median and the 99th percentile of the times
between two tokens of a stream, of all rounds of a kind.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import aiohttp
from transformers import AutoModelForCausalLM

from hookline_testing.adapters import make_adapter, shapes_of
from hookline_testing.server_process import serving

STREAMS, TOKENS = 15, 64


async def stream(session: aiohttp.ClientSession, seed: int) -> list[float]:
    """Returns the times between tokens of one answer, in ms."""
    body = {
        "prompt": [(seed * 37 + at) % 7000 + 5 for at in range(32)],
        "max_tokens": TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
    }
    times: list[float] = []
    async with session.post("/v1/completions", json=body) as answer:
        last: float | None = None
        async for line in answer.content:
            if not line.startswith(b"data: {"):
                continue
            now = time.perf_counter()
            if last is not None:
                times.append(1000 * (now - last))
            last = now
    return times


async def change(session: aiohttp.ClientSession, path: str, body: object) -> float:
    """Loads or unloads; returns the seconds that it took."""
    began = time.perf_counter()
    async with session.post(path, json=body) as answer:
        assert answer.status == 200, await answer.text()
    return time.perf_counter() - began


async def measure(port: int, rounds: int) -> None:
    """Prints the times."""
    found: dict[str, list[float]] = {"quiet": [], "loading": []}
    loads: list[float] = []
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        for turn in range(-2, 2 * rounds):
            kind = "loading" if turn % 2 else "quiet"
            streams = [
                asyncio.ensure_future(stream(session, at)) for at in range(STREAMS)
            ]
            if kind == "loading":
                await asyncio.sleep(0.3)
                names = {"lora_name": "big", "lora_path": "big"}
                taken = await change(session, "/v1/load_lora_adapter", names)
                loads.append(taken)
            times = [one for each in streams for one in await each]
            if kind == "loading":
                gone = {"lora_name": "big"}
                await change(session, "/v1/unload_lora_adapter", gone)
            if turn >= 0:
                found[kind] += times
    for kind, times in found.items():
        cut = statistics.quantiles(times, n=100)
        print(f"{kind}: median {statistics.median(times):.2f} ms, p99 {cut[98]:.2f} ms")
    p99 = [statistics.quantiles(times, n=100)[98] for times in found.values()]
    print(f"p99 {p99[1] / p99[0]:.3f}, loading took {statistics.median(loads):.2f} s")


def main() -> None:
    """Makes the adapter, starts the server and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--rank", type=int, default=256)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = AutoModelForCausalLM.from_pretrained(options.model)
        made = make_adapter(
            Path(folder) / "big",
            shapes_of(model),
            rank=options.rank,
            alpha=float(options.rank),
            dtype=model.dtype,
        )
        size = (made / "adapter_model.safetensors").stat().st_size
        print(f"an adapter of {size / 1e6:.0f} MB")
        argv = (
            *("--model", str(options.model), "--port", "0", "--max-model-len", "512"),
            *("--enable-lora", "--lora-dir", folder, "--max-lora-rank", "1024"),
            *("--log-level", "warning"),
        )
        with serving(*argv, environment={"OMP_NUM_THREADS": "2"}) as server:
            asyncio.run(measure(server.port, options.rounds))


if __name__ == "__main__":
    main()

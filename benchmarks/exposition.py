"""Measures the pages of `/metrics`: series, sizes and response times by format.

usage: python benchmarks/exposition.py [--dialects hookline hookline,vllm,sglang]
                                       [--requests 200] [--repeats 40]

Starts a server of the demo model for each choice of dialects, with speculation, a KV
connector and hidden names, so that all families are there. Its page is read when the
server is ready, and after some completions in each format and with gzip. Between two
reads the server answers a completion, so that no page is the one before; the best and
the median time to read a page over a kept connection are shown. Formats that the
server does not have are left out. A second server without native histograms shows what
these add to the page in protobuf.
"""

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection

from hookline_testing.server_process import Server, serving

PROTOBUF = "application/vnd.google.protobuf"
FORMATS: Mapping[str, tuple[str, str]] = {
    "text": ("text/plain;version=0.0.4", "text/plain"),
    "OpenMetrics": (
        "application/openmetrics-text;version=1.0.0",
        "application/openmetrics-text",
    ),
    "protobuf": (
        f"{PROTOBUF};proto=io.prometheus.client.MetricFamily;encoding=delimited",
        PROTOBUF,
    ),
}
"""What a scraper accepts for each format, and how the answer's type begins."""

CLASSIC = {"protobuf, classic buckets alone": FORMATS["protobuf"]}
WITHOUT_NATIVE = "--stat-logger-option=prometheus.native_histogram_bucket_factor=1"

OPTIONS = (
    "--port=0",
    "--log-level=error",
    "--show-hidden-metrics-for-version=0.0",
    "--kv-cache-metrics-sample=1",
    '--speculative-config={"method": "ngram", "num_speculative_tokens": 3}',
    '--kv-transfer-config={"kv_connector": "cpu_offload"}',
)


@dataclass(frozen=True, slots=True)
class Read:
    """Pages in one format and coding.

    Attributes:
        size: Bytes of the last page, as sent.
        seconds: Time of each.
    """

    size: int
    seconds: Sequence[float]

    def __str__(self) -> str:
        best, middle = min(self.seconds), statistics.median(self.seconds)
        return f"{self.size / 1024:.1f} KiB | {best * 1e3:.1f} / {middle * 1e3:.1f} ms"


def series(page: str) -> int:
    """Counts the samples of a page in a text format."""
    return sum(1 for line in page.splitlines() if line and not line.startswith("#"))


def complete(server: Server, number: int, tokens: int) -> None:
    body = {"model": "demo", "prompt": f"def f_{number}(", "max_tokens": tokens}
    server.post("/v1/completions", body)


def read(
    server: Server, accept: str, kind: str, coding: str, times: int
) -> Read | None:
    """Reads pages; None if the server answers in another format."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Accept": accept, "Accept-Encoding": coding}
    size, seconds = 0, []
    for number in range(times):
        complete(server, number, 2)
        start = time.perf_counter()
        connection.request("GET", "/metrics", headers=headers)
        response = connection.getresponse()
        size = len(response.read())
        seconds.append(time.perf_counter() - start)
        if not response.headers["Content-Type"].startswith(kind):
            return None
    connection.close()
    return Read(size, seconds)


def measure(
    dialects: str,
    requests: int,
    repeats: int,
    formats: Mapping[str, tuple[str, str]],
    *options: str,
) -> None:
    """Prints the rows of one choice of dialects and of the server's options."""
    with serving(*OPTIONS, f"--metrics-dialect={dialects}", *options) as server:
        idle = series(server.get("/metrics")[1])
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: complete(server, number, 24), range(requests)))
        loaded = series(server.get("/metrics")[1])
        for name, (accept, kind) in formats.items():
            plain = read(server, accept, kind, "identity", repeats)
            packed = read(server, accept, kind, "gzip", repeats)
            if plain is not None and packed is not None:
                cells = (dialects, name, f"{idle} / {loaded}", str(plain), str(packed))
                print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--dialects", nargs="+", default=["hookline", "hookline,vllm,sglang"]
    )
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=40)
    options = parser.parse_args()
    print("| dialects | format | series idle / loaded | page | time | gzip | time |")
    print("|---|---|---|---|---|---|---|")
    for dialects in options.dialects:
        load = (options.requests, options.repeats)
        measure(dialects, *load, FORMATS)
        measure(dialects, *load, CLASSIC, WITHOUT_NATIVE)


if __name__ == "__main__":
    main()

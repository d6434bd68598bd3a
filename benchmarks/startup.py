"""Measures starts of a server: cold, warm, its memory, and the import of `hookline`.

usage: python benchmarks/startup.py [--runs 5] [--cold 2] [-- OPTION OF `serve` …]

A start lasts from the command to the first 200 of /health/ready. A cold one has empty
folders for compiled code. Memory is resident and private, or a share of what processes
share: at the end of a start, and again after ten short completions.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from process_memory import memory_mib

LIMIT_SECONDS = 120
COMPLETIONS = 10
CACHES = (
    "NUMBA_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "VLLM_CACHE_ROOT",
    "XDG_CACHE_HOME",
)
"""Environment variables that name folders of compiled code."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a server, in seconds and MiB."""

    seconds: float
    memory: float
    memory_in_use: float


@contextmanager
def empty_caches() -> Iterator[Mapping[str, str]]:
    """Gives the environment variables by which no code has been compiled yet."""
    with tempfile.TemporaryDirectory() as folder:
        yield {name: f"{folder}/{name.lower()}" for name in CACHES}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_ready(port: int) -> bool:
    url = f"http://127.0.0.1:{port}/health/ready"
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def served_model(port: int) -> str:
    """Asks for the name that requests have to give."""
    url = f"http://127.0.0.1:{port}/v1/models"
    with urllib.request.urlopen(url, timeout=LIMIT_SECONDS) as answer:
        return str(json.load(answer)["data"][0]["id"])


def complete(port: int, model: str) -> None:
    """Sends one short completion."""
    body = {
        "model": model,
        "prompt": "def add(a, b):",
        "max_tokens": 16,
        "temperature": 0,
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=LIMIT_SECONDS) as answer:  # noqa: S310 - our own server
        answer.read()


def start_once(arguments: Sequence[str], environment: Mapping[str, str]) -> Start:
    """Starts a server, uses it a little and ends it."""
    port = free_port()
    command = [
        sys.executable,
        "-P",
        "-m",
        "hookline_server",
        "serve",
        "--port",
        str(port),
    ]
    begin = time.perf_counter()
    server = subprocess.Popen(  # noqa: S603 - our own command
        [*command, *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not is_ready(port):
            if server.poll() is not None or time.perf_counter() - begin > LIMIT_SECONDS:
                sys.exit("the server did not become ready")
            time.sleep(0.02)
        seconds = time.perf_counter() - begin
        memory = memory_mib(server.pid)
        model = served_model(port)
        for _ in range(COMPLETIONS):
            complete(port, model)
        return Start(seconds, memory, memory_mib(server.pid))
    finally:
        server.terminate()
        server.wait()


def import_seconds() -> float:
    """Returns how much longer Python runs if it imports `hookline`."""

    def seconds(code: str) -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-P", "-c", code], check=True)  # noqa: S603
        return time.perf_counter() - begin

    return seconds("import hookline") - seconds("pass")


def show(name: str, values: Sequence[float], unit: str) -> None:
    each = sorted(values)
    spread = f"{each[0]:.2f} to {each[-1]:.2f}, {len(each)} runs"
    print(f"{name}: {statistics.median(each):.2f} {unit} ({spread})", flush=True)


def show_starts(kind: str, starts: Sequence[Start]) -> None:
    if starts:
        show(f"{kind}, ready after", [each.seconds for each in starts], "s")
        show(f"{kind}, memory", [each.memory for each in starts], "MiB")
        in_use = [each.memory_in_use for each in starts]
        show(f"{kind}, memory after use", in_use, "MiB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="warm starts")
    parser.add_argument("--cold", type=int, default=0, help="cold starts")
    options, arguments = parser.parse_known_args()
    arguments = [each for each in arguments if each != "--"]
    import_seconds()  # warms the page cache
    show("import hookline", [import_seconds() for _ in range(5)], "s")
    cold = []
    for _ in range(options.cold):
        with empty_caches() as caches:
            cold.append(start_once(arguments, {**os.environ, **caches}))
    show_starts("cold", cold)
    if options.runs:
        start_once(arguments, os.environ)  # fills the caches
        show_starts(
            "warm", [start_once(arguments, os.environ) for _ in range(options.runs)]
        )


if __name__ == "__main__":
    main()

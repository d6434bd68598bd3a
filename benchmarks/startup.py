"""Measures the time from the command to the first 200 of /health/ready.

usage: python benchmarks/startup.py [--runs 5] [-- OPTIONS OF `hookline serve`]
"""

import argparse
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

LIMIT_SECONDS = 120


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


def seconds_to_ready(arguments: list[str]) -> float:
    port = free_port()
    command = [sys.executable, "-m", "hookline_server", "serve", "--port", str(port)]
    start = time.perf_counter()
    server = subprocess.Popen(  # noqa: S603 - our own command
        command + arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not is_ready(port):
            if server.poll() is not None or time.perf_counter() - start > LIMIT_SECONDS:
                sys.exit("the server did not become ready")
            time.sleep(0.02)
        return time.perf_counter() - start
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options, arguments = parser.parse_known_args()
    seconds_to_ready(arguments)  # warms the page cache
    times = sorted(seconds_to_ready(arguments) for _ in range(options.runs))
    print(
        f"ready after {statistics.median(times):.2f} s "
        f"({times[0]:.2f} to {times[-1]:.2f}, {options.runs} runs)"
    )


if __name__ == "__main__":
    main()

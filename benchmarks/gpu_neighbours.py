"""Serves with two engines that share one GPU; needs a CUDA device.

usage: python benchmarks/gpu_neighbours.py [--engines 2] [--out FILE.json]

Starts `hookline serve --data-parallel-size 2 --device cuda` with a small random model,
sends requests at once, and reads from /metrics how many tokens each engine generated.
Fails if an engine answered no request. The results file lists what each engine did.
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from gpu import MODELS
from gpu_engine import write_model
from gpu_results import add_note

REQUESTS, TOKENS = 16, 32
SMALL = replace(MODELS[0], name="Qwen3-small", layers=4, vocab_size=8192)
COUNTED = re.compile(
    r"^hookline_generation_tokens_total\{([^}]*)\} (\S+)$", re.MULTILINE
)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def get(url: str, body: dict[str, object] | None = None) -> str:
    """Returns an answer's text; posts a body if there is one."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        text: str = answer.read().decode()
        return text


def wait_for(url: str, server: "subprocess.Popen[bytes]", seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            get(url + "/health")
        except (OSError, urllib.error.URLError):
            if server.poll() is not None:
                break
            time.sleep(0.2)
        else:
            return
    sys.exit("the server has not come up")


def used(metrics: str) -> dict[str, float]:
    """Returns the generated tokens by engine."""
    found: dict[str, float] = {}
    for labels, value in COUNTED.findall(metrics):
        engine = re.search(r'engine="(\d+)"', labels)
        if engine:
            found[engine[1]] = max(found.get(engine[1], 0.0), float(value))
    return found


def check(url: str, engines: int) -> str:
    """Sends the requests, and returns what each engine did."""
    body = {"model": "m", "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0}
    start = time.monotonic()
    with ThreadPoolExecutor(REQUESTS) as pool:
        prompts = [f"def number_{index}(" for index in range(REQUESTS)]
        answers = [
            pool.submit(get, url + "/v1/completions", {**body, "prompt": prompt})
            for prompt in prompts
        ]
        counts = [
            json.loads(each.result())["usage"]["completion_tokens"] for each in answers
        ]
    seconds = time.monotonic() - start
    found = used(get(url + "/metrics"))
    text = f"{sum(counts)} tokens in {seconds:.1f} s, by engine {found}"
    if sum(counts) != REQUESTS * TOKENS or sum(map(bool, found.values())) != engines:
        sys.exit(f"not all engines answered: {text}")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, default=2)
    parser.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        write_model(SMALL, Path(folder))
        command = [sys.executable, "-P", "-m", "hookline_server"]
        command += ["serve", folder]
        command += [
            "--load-format",
            "dummy",
            "--device",
            options.device,
            "--port",
            str(port),
        ]
        command += ["--host", "127.0.0.1", "--served-model-name", "m"]
        command += ["--data-parallel-size", str(options.engines)]
        command += ["--load-balancing", "round-robin", "--max-num-seqs", "16"]
        command += ["--max-model-len", "2048"]
        start = time.monotonic()
        server = subprocess.Popen(command, env=dict(os.environ))  # noqa: S603
        try:
            wait_for(url := f"http://127.0.0.1:{port}", server, 50)
            ready = time.monotonic() - start
            text = f"ready after {ready:.1f} s; {check(url, options.engines)}"
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
    print(text)
    if options.out:
        add_note(options.out, f"{options.engines} engines on one GPU", text)


if __name__ == "__main__":
    main()

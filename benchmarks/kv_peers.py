"""Compares loading a prompt's KV from another engine with computing it.

usage: python benchmarks/kv_peers.py [--model llama-90m] [--tokens 2000]
           [--rounds 5] [--connectors p2p shared_storage] [--p2p-options '{…}']

Unlike in `kv_transfer.py`, the other engine is in another process, and nothing is
local. Measures the seconds from a request's arrival to its first token, when its
prompt's KV is

computed         by the engine itself
p2p              loaded from an engine in another process, which keeps it
shared_storage   read from files that such an engine has written

Each round has a new prompt and runs all rows in turn; the first round is a warmup. The
other engines are idle meanwhile. All rows must generate the same token.
"""

import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from bench_folders import own_folder
from bench_models import NAMES, write_models

from hookline.clock import SystemClock
from hookline.config import CacheConfig, EngineConfig, ModelConfig
from hookline.config.extensions import KV_TRANSFER
from hookline.engine.commands import Add
from hookline.engine.engine_loop import EngineLoop
from hookline.engine_setup.building import build_core
from hookline.events import StepOutput
from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline.transport.engine_client import EngineDied
from hookline.transport.inproc_client import InprocClient
from hookline_metrics.transfer_stats import transfers_of

BLOCK = 16
POOL_BLOCKS = 1024
FIRST_TOKEN = SamplingParams(temperature=0.0, max_tokens=1)
DO_REMOTE_DECODE = {"do_remote_decode": True, "do_remote_prefill": False}


class Engine:
    """One of the compared engines, in this process."""

    def __init__(self, folder: Path, transfer: Mapping[str, object] | None) -> None:
        config = EngineConfig(
            model=ModelConfig(model=str(folder)),
            cache=CacheConfig(block_size=BLOCK, num_kv_blocks=POOL_BLOCKS),
            kv_transfer=None if transfer is None else dict(transfer),
        )
        self.client = InprocClient(EngineLoop(build_core(config, SystemClock()), 60.0))
        self._last_id = 0

    def first_token(
        self, prompt: Sequence[int], params: Mapping[str, object] | None
    ) -> tuple[float, int, dict[str, object] | None]:
        """Returns the seconds to the first token, the token and transfer parameters."""
        self._last_id += 1
        request = GenerateRequest(
            request_id=self._last_id,
            prompt_token_ids=list(prompt),
            params=FIRST_TOKEN,
            sections={KV_TRANSFER: dict(params)} if params else {},
        )
        began_at = time.perf_counter()
        self.client.send(0, Add(request))
        while (output := self.receive(1.0)) is None or not output.events.finished:
            pass
        took = time.perf_counter() - began_at
        [token] = output.events.new_tokens[0].token_ids
        params_back = output.events.finished[0].sections.get(KV_TRANSFER)
        assert params_back is None or isinstance(params_back, dict)
        return took, token, params_back

    def receive(self, timeout_seconds: float) -> StepOutput | None:
        received = self.client.receive(timeout_seconds)
        if isinstance(received, EngineDied):
            sys.exit(received.reason)
        return received if isinstance(received, StepOutput) else None

    def rest(self) -> None:
        """Waits until no transfers are in flight."""
        while (output := self.receive(0.2)) is not None:
            stats = transfers_of(output.stats)
            if not (stats.loading or stats.saving or stats.closing):
                return


def child(folder: Path, transfer: Mapping[str, object]) -> None:
    """Computes the prompts on standard input, and prints their transfer parameters."""
    engine = Engine(folder, transfer)
    print("ready", flush=True)
    while True:
        if not select.select([sys.stdin], [], [], 0)[0]:
            engine.receive(0.01)
        elif not (line := sys.stdin.readline()):
            return
        else:
            _, _, params = engine.first_token(json.loads(line), DO_REMOTE_DECODE)
            print(json.dumps(params), flush=True)


class Other:
    """An engine in another process."""

    def __init__(self, folder: Path, transfer: Mapping[str, object]) -> None:
        given = ["--child", json.dumps([str(folder), transfer])]
        self._process = subprocess.Popen(  # noqa: S603 - this script
            [sys.executable, __file__, *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        while "ready" not in self._say(None):
            pass

    def compute(self, prompt: Sequence[int]) -> Any:
        return json.loads(self._say(json.dumps(list(prompt))))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _say(self, line: str | None) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if line is not None:
            print(line, file=self._process.stdin, flush=True)
        if not (line := self._process.stdout.readline()):
            sys.exit(f"the other engine ended with status {self._process.wait()}")
        return line


def wait_for_files(folder: Path, count: int) -> None:
    while len(list(folder.rglob("*.safetensors"))) < count:
        time.sleep(0.05)
    os.sync()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    models = own_folder("models")
    parser.add_argument("--models-folder", type=Path, default=models)
    parser.add_argument("--model", choices=NAMES, default="llama-90m")
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    connectors = ["p2p", "shared_storage"]
    parser.add_argument("--connectors", nargs="*", default=connectors)
    parser.add_argument("--p2p-options", type=json.loads, default={})
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(Path(given.child[0]), given.child[1])
        return
    write_models(given.models_folder, (given.model,))
    with tempfile.TemporaryDirectory() as storage:
        own: dict[str, Mapping[str, object]] = {
            "p2p": given.p2p_options,
            "shared_storage": {"shared_storage_path": storage},
        }
        compare(given, own, Path(storage))


def compare(
    given: argparse.Namespace, own: Mapping[str, Mapping[str, object]], storage: Path
) -> None:
    folder = given.models_folder / given.model
    configs = {
        name: {"kv_connector": name, "kv_connector_extra_config": own[name]}
        for name in given.connectors
    }
    others = {name: Other(folder, each) for name, each in configs.items()}
    engines = {name: Engine(folder, each) for name, each in configs.items()}
    engines = {"computed": Engine(folder, None), **engines}
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    source = Random(1)  # noqa: S311 - prompts
    for number in range(given.rounds + 1):
        prompt = [source.randrange(3, 8000) for _ in range(given.tokens + 1)]
        tokens = set()
        for name, engine in engines.items():
            params = others[name].compute(prompt) if name in others else None
            if name == "shared_storage":
                wait_for_files(storage, (number + 1) * (given.tokens // BLOCK))
            took, token, _ = engine.first_token(prompt, params)
            engine.rest()
            tokens.add(token)
            if number:
                seconds[name].append(took)
        if len(tokens) > 1:
            print(f"round {number}: tokens differ")
    for other in others.values():
        other.close()
    base = statistics.median(seconds["computed"])
    print(f"{given.tokens} tokens of {given.model}, {given.rounds} rounds\n")
    print("| | median s | least | most | of computed |")
    print("|---|--:|--:|--:|--:|")
    for name, each in seconds.items():
        median = statistics.median(each)
        print(
            f"| {name} | {median:.3f} | {min(each):.3f} | {max(each):.3f} "
            f"| {median / base:.3f} |"
        )


if __name__ == "__main__":
    main()

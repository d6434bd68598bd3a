"""Ranks of one engine on two machines: a network namespace with a cable to this one."""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline.exceptions import EngineDeadError
from hookline_cluster.ranks.connected_ranks import RankEnded
from hookline_cluster.ranks.rank_messages import RankEnlistment
from hookline_processes.frames import frame
from hookline_processes.supervised import describe_exit
from hookline_testing.oracle import make_oracle
from hookline_testing.plugin_site import PluginSite
from hookline_testing.second_machine import SecondMachine, second_machine

pytestmark = pytest.mark.hostile

MODULE = "hookline_cluster.ranks.connected_rank_process"
EXECUTOR = """
from hookline_cluster.ranks.connected_ranks import ConnectedRanks
from hookline.engine_setup.executor_factory import (RUNS_MODEL, ExecutorFactory)
from hookline_ranks.processes.executor import RanksExecutor

make_nodes = []

def create(context):
    return RanksExecutor(
        context, lambda config: ConnectedRanks(config, make_nodes[0]())
    )

TWO = ExecutorFactory(create, RUNS_MODEL, has_processes=True)
"""
COUNT = 12
GREEDY = SamplingParams(max_tokens=COUNT, temperature=0.0)
ENDLESS = SamplingParams(max_tokens=200, temperature=0.0, ignore_eos=True)
PROMPT = [*range(5, 25), 300, 317]


class TwoMachines:
    """Implements `RankNodes`: the last rank is on the second machine."""

    def __init__(self, second: SecondMachine, there: str) -> None:
        self.address = second.here
        self._second, self._there = second, there
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._channels: list[socket.socket] = []
        self._has_told = False

    def start(self, enlisted: RankEnlistment) -> None:
        is_there = enlisted.rank == enlisted.world_size - 1
        log = os.open(os.devnull, os.O_WRONLY)
        argv = [sys.executable, "-m", MODULE, str(enlisted.rank)]
        argv += [str(os.getpid()), str(log), str(logging.ERROR)]
        channel, theirs = socket.socketpair()
        process = subprocess.Popen(
            self._second.command(*argv) if is_there else argv,
            stdin=theirs.fileno(),
            pass_fds=[log],
        )
        os.close(log)
        theirs.close()
        addressed = msgspec.structs.replace(
            enlisted, address=self._there if is_there else self.address
        )
        channel.sendall(frame(addressed.packed()))
        self._channels.append(channel)
        self._running[enlisted.rank] = process

    def take_end(self) -> RankEnded | None:
        """Only this machine tells: a cable that is cut carries no news."""
        code = self._running[0].poll()
        if code is None or self._has_told:
            return None
        self._has_told = True
        return RankEnded(0, describe_exit(code))

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()
        for channel in self._channels:
            channel.close()


@pytest.fixture
def second() -> Iterator[SecondMachine]:
    with second_machine() as made:
        yield made


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginSite]:
    with PluginSite(tmp_path_factory.mktemp("site")) as made:
        made.install("two", EXECUTOR, group="hookline.executors", attribute="TWO")
        yield made


def engine(folder: Path, second: SecondMachine, site: PluginSite) -> LLM:
    there = f"{second.here.rpartition('.')[0]}.2"
    site.module("two").make_nodes[:] = [partial(TwoMachines, second, there)]
    config = EngineConfig.from_options(
        model=str(folder),
        executor="two",
        num_kv_blocks=128,
        threads=1,
        tensor_parallel_size=2,
    )
    return LLM.from_config(config)


def test_both_compute_until_the_cable_is_cut(
    second: SecondMachine, site: PluginSite, tmp_path: Path
) -> None:
    """
    What transformers computes: each listens and connects at its own address. Then the
    engine ends with the rank that gives no sign of life; nobody waits for gloo's
    deadline.
    """
    oracle = make_oracle("llama", tmp_path)
    with engine(tmp_path, second, site) as llm:
        [found] = llm.generate([PROMPT], GREEDY, use_tqdm=False)
        assert found.outputs[0].token_ids == oracle.greedy(PROMPT, COUNT)
        second.cut()

        with pytest.raises(EngineDeadError, match="rank 1: the connection to"):
            llm.generate([PROMPT], ENDLESS, use_tqdm=False)

        second.mend()

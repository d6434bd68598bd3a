"""Ranks that are connected to their executor, and to each other by gloo."""

import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError, EngineDeadError, RankError
from hookline_cluster.ranks.connected_ranks import ConnectedRanks
from hookline_cluster.ranks.rank_messages import RankEnlistment
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle, make_oracle
from hookline_testing.own_time import Deadline
from hookline_testing.plugin_site import PluginSite
from hookline_testing.rank_nodes import LoopbackNodes

COUNT = 12
GREEDY = SamplingParams(max_tokens=COUNT, temperature=0.0)
PROMPTS = [[*range(5, 25), 300, 317], [8, 9, 10, 11, 12], [5, 6, 7, 5, 6, 7, 5, 6]]
DIVISIONS: dict[str, dict[str, object]] = {
    "TP 2": {
        "tensor_parallel_size": 2,
        "max_num_batched_tokens": 16,
        "max_num_seqs": 4,
    },
    "PP 2": {
        "pipeline_parallel_size": 2,
        "max_num_batched_tokens": 16,
        "max_num_seqs": 4,
    },
    "TP 2 x PP 2": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2},
    "one rank": {},
    "drafts": {
        "tensor_parallel_size": 2,
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 3},
    },
    "offload": {
        "pipeline_parallel_size": 2,
        "kv_transfer_config": {
            "kv_connector": "cpu_offload",
            "kv_connector_extra_config": {"cpu_bytes_to_use": 1 << 24},
        },
    },
}
DEADLINE = 30.0


@pytest.fixture(autouse=True)
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The executor under the name `connected`."""
    with PluginSite(tmp_path_factory.mktemp("site")) as made:
        source = "from hookline_testing.rank_nodes import CONNECTED"
        made.install(
            "connected", source, group="hookline.executors", attribute="CONNECTED"
        )
        yield


def engine(folder: Path, **options: object) -> LLM:
    config = EngineConfig.from_options(
        model=str(folder),
        executor="connected",
        num_kv_blocks=128,
        threads=1,
        **options,
    )
    return LLM.from_config(config)


def tokens(llm: LLM) -> list[list[int]]:
    found = llm.generate(PROMPTS, GREEDY, use_tqdm=False)
    return [each.outputs[0].token_ids for each in found]


def wait_until_gone(pids: tuple[int, ...]) -> None:
    deadline = Deadline(DEADLINE)
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):  # noqa: PTH110
        assert deadline.is_ahead, pids
        time.sleep(0.05)


def check_greedy_output(folder: Path, family: str, division: str) -> None:
    """It equals generate's, twice over; no process is left behind."""
    oracle = make_oracle(family, folder)
    expected = [oracle.greedy(prompt, COUNT) for prompt in PROMPTS]

    with engine(folder, **DIVISIONS[division]) as llm:
        pids, hosts = llm.front_end.facts.rank_pids, llm.front_end.facts.rank_hosts
        found = [tokens(llm) for _ in range(2)]
        assert_conserved(llm)

    assert found == [expected, expected]
    assert set(hosts) == {socket.gethostname()}
    assert len(pids) == len(hosts) == len(set(pids))
    wait_until_gone(pids)


@pytest.mark.slow
def test_ranks_that_share_layers_say_what_transformers_says(tmp_path: Path) -> None:
    """With chunks and the prefix cache."""
    check_greedy_output(tmp_path, "llama", "TP 2")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("family", "division"),
    [
        *(("llama", each) for each in DIVISIONS if each != "TP 2"),
        ("qwen3-moe", "TP 2"),
    ],
)
def test_other_divisions_say_it_as_well(
    family: str, division: str, tmp_path: Path
) -> None:
    """Stages, drafts, a connector, experts, and a rank alone."""
    check_greedy_output(tmp_path, family, division)


@pytest.mark.exhaustive
def test_experts_of_all_ranks_are_counted(tmp_path: Path) -> None:
    """Each pair of a token and an expert once, as in ranks that share memory."""
    make_oracle("qwen3-moe", tmp_path)
    options = {"tensor_parallel_size": 2, "enable_expert_parallel": True}
    counts: list[list[float]] = []
    for executor in ("connected", "mp"):
        config = EngineConfig.from_options(
            model=str(tmp_path), executor=executor, num_kv_blocks=128, **options
        )
        with LLM.from_config(config) as llm:
            for _ in range(3):  # counts may come a step later
                tokens(llm)
            [family] = [
                each
                for each in llm.get_metrics()
                if each.name == "hookline_expert_tokens"
            ]
            values = [each.value for each in family.samples]
            counts.append([each for each in values if isinstance(each, float | int)])

    connected, shared = counts
    assert len(connected) == len(shared) == 2
    assert all(
        0.9 * there <= here <= there
        for here, there in zip(connected, shared, strict=True)
    )


@pytest.mark.exhaustive
def test_ranks_sleep_and_wake_up(llama: Oracle) -> None:
    """All of them, while their connections stay."""
    with engine(llama.folder, tensor_parallel_size=2) as llm:
        before = tokens(llm)
        for level in (1, 2):
            llm.sleep(level)
            llm.wake_up()

            assert tokens(llm) == before


@pytest.mark.exhaustive
@pytest.mark.parametrize("rank", essential([0, 1], 1))
def test_the_death_of_a_rank_ends_the_engine(llama: Oracle, rank: int) -> None:
    """The error names the rank and what happened to it, not one that missed it."""
    with engine(llama.folder, tensor_parallel_size=2) as llm:
        pids = llm.front_end.facts.rank_pids
        os.kill(pids[rank], signal.SIGKILL)

        with pytest.raises(EngineDeadError, match=f"rank {rank}: its process was kill"):
            tokens(llm)

    wait_until_gone(pids)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", essential([signal.SIGKILL, signal.SIGSTOP], signal.SIGSTOP)
)
def test_a_rank_of_a_silent_machine_is_lost(
    llama: Oracle, number: signal.Signals
) -> None:
    """Its connection ends, or has no sign of life for five seconds."""
    made: list[LoopbackNodes] = []

    def start(config: EngineConfig) -> ConnectedRanks:
        made.append(LoopbackNodes(tells_ends=False))
        return ConnectedRanks(config, made[0])

    config = EngineConfig.from_options(
        model=str(llama.folder), tensor_parallel_size=2, num_kv_blocks=128
    )
    ranks = start(config)
    os.kill(ranks.pids[1], number)

    deadline = Deadline(DEADLINE)
    while (failure := ranks.find_failure()) is None:
        assert deadline.is_ahead
        time.sleep(0.05)
    ranks.close()

    assert str(failure) == f"rank 1: the connection to {socket.gethostname()} is lost"
    wait_until_gone(ranks.pids)


class _Changing(LoopbackNodes):
    """Tells a rank something else than the executor says."""

    def __init__(self, rank: int, **changes: object) -> None:
        super().__init__()
        self._rank, self._changes = rank, changes

    def start(self, enlisted: RankEnlistment) -> None:
        if enlisted.rank == self._rank:
            enlisted = _changed(enlisted, self._changes)
        super().start(enlisted)


def _changed(enlisted: RankEnlistment, changes: dict[str, object]) -> RankEnlistment:
    fields = {name: getattr(enlisted, name) for name in enlisted.__struct_fields__}
    return RankEnlistment(**{**fields, **changes})


@pytest.mark.slow
def test_a_rank_with_another_model_is_refused(llama: Oracle, tmp_path: Path) -> None:
    """Before it could add its part of other weights to sums."""
    other = tmp_path / "other"
    shutil.copytree(llama.folder, other)
    with (other / "config.json").open("a") as config_file:
        config_file.write("\n")
    config = EngineConfig.from_options(
        model=str(llama.folder), tensor_parallel_size=2, num_kv_blocks=128
    )
    nodes = _Changing(1, model=str(other))

    with pytest.raises(ConfigError, match=r"rank 1 on .* has another one: its files"):
        ConnectedRanks(config, nodes)

    assert nodes.running == {}


@pytest.mark.exhaustive
def test_a_rank_that_has_no_model_says_so(llama: Oracle, tmp_path: Path) -> None:
    """The start fails with its reason."""
    config = EngineConfig.from_options(
        model=str(llama.folder), tensor_parallel_size=2, num_kv_blocks=128
    )
    nodes = _Changing(1, model=str(tmp_path / "none"))

    with pytest.raises(RankError, match="rank 1: its process ended with exit code 4"):
        ConnectedRanks(config, nodes)


@pytest.mark.exhaustive
def test_whoever_lacks_the_secret_is_no_rank(llama: Oracle) -> None:
    """It is cut off, and disturbs nobody."""
    config = EngineConfig.from_options(
        model=str(llama.folder), tensor_parallel_size=2, num_kv_blocks=128
    )
    ports: list[int] = []

    class Watched(LoopbackNodes):
        def start(self, enlisted: RankEnlistment) -> None:
            ports.append(enlisted.port)
            super().start(enlisted)

    ranks = ConnectedRanks(config, Watched())
    context = zmq.Context()
    stranger = context.socket(zmq.DEALER)
    stranger.setsockopt(zmq.LINGER, 0)
    stranger.connect(f"tcp://127.0.0.1:{ports[0]}")
    stranger.send(b"\x81\xa4type\xa8Answered")
    with socket.create_connection(("127.0.0.1", ports[0])) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
    failures = []
    for _ in range(20):
        time.sleep(0.05)
        failures.append(ranks.find_failure())
    answers = [each.read(0.0) for each in ranks.answers]
    context.destroy(linger=0)
    ranks.close()

    assert failures == [None] * 20
    assert answers == [None, None]

"""The transport `nixl`: with NIXL itself where it is installed, else with a stand-in.

The stand-in does what NIXL's documentation says, by copying memory in this process.
"""

import ctypes
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from types import ModuleType

import pytest

from hookline_faults.p2p_transport import Wire, flipped, prefilled
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.driven_engine import DrivenEngine, rest, turn_until

MakeEngine = Callable[..., tuple[DrivenEngine, Wire]]

PROMPT = list(range(3, 44))
Region = tuple[int, int, int]


class FakeAgent:
    """Reads memory at any address: there is one process."""

    fails = False
    polls = 2

    def __init__(self, name: str, config: object) -> None:
        assert config == ["UCX"]
        self.name, self.remote, self.steps = name, set[str](), dict[object, int]()

    def register_memory(self, reg_list: object, mem_type: str) -> object:
        assert mem_type == "DRAM"
        return reg_list

    def deregister_memory(self, dereg_list: object) -> None: ...

    def get_agent_metadata(self) -> bytes:
        return self.name.encode()

    def add_remote_agent(self, metadata: bytes) -> bytes:
        self.remote.add(metadata.decode())
        return metadata

    def remove_remote_agent(self, agent: str) -> None:
        self.remote.remove(agent)

    def get_xfer_descs(self, descs: list[Region], mem_type: str) -> list[Region]:
        assert mem_type == "DRAM"
        return descs

    def initialize_xfer(
        self, operation: str, local: list[Region], remote: list[Region], agent: str
    ) -> object:
        assert operation == "READ"
        assert agent in self.remote
        return (local[0], remote[0])

    def transfer(self, handle: tuple[Region, Region]) -> str:
        self.steps[handle] = FakeAgent.polls
        return "PROC"

    def check_xfer_state(self, handle: tuple[Region, Region]) -> str:
        self.steps[handle] -= 1
        if self.steps[handle]:
            return "PROC"
        if FakeAgent.fails:
            return "ERR"
        (here, size, _), (there, _, _) = handle
        ctypes.memmove(here, there, size)
        return "DONE"

    def release_xfer_handle(self, handle: object) -> None:
        del self.steps[handle]


@pytest.fixture(params=["stand-in", "real"])
def nixl(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which of the two."""
    if request.param == "real":
        if find_spec("nixl") is None:
            pytest.skip("NIXL is not installed")
        return "real"
    module = ModuleType("nixl._api")
    vars(module)["nixl_agent"] = FakeAgent
    vars(module)["nixl_agent_config"] = lambda backends: backends
    monkeypatch.setitem(sys.modules, "nixl", ModuleType("nixl"))
    monkeypatch.setitem(sys.modules, "nixl._api", module)
    monkeypatch.setattr(FakeAgent, "fails", False)
    return "stand-in"


def pass_on(
    make_engine: MakeEngine, prepare: Callable[[Wire], None] = lambda _: None
) -> tuple[bool, Mapping[str, Mapping[str, int]], int]:
    """Whether the tokens are right, the failures, and tokens that were brought."""
    (producer, wire), (consumer, _) = (
        make_engine(transport="nixl"),
        make_engine(transport="nixl"),
    )
    alone = producer.add(PROMPT, 6)
    rest([producer])
    prepare(wire)
    told = prefilled(producer, PROMPT)
    request = consumer.add(PROMPT, 6, told)
    turn_until([producer, consumer], lambda: request in consumer.ended)
    _, taking = rest([producer, consumer])
    is_right = consumer.tokens[request] == producer.tokens[alone]
    return (
        is_right,
        transfers_of(taking).failures,
        transfers_of(taking).external_cache.hit_tokens,
    )


@pytest.mark.usefixtures("nixl")
def test_blocks_are_read_from_the_producers_memory(
    make_real_engine: MakeEngine,
) -> None:
    """As with the other transport."""
    assert pass_on(make_real_engine) == (True, {}, 40)


@pytest.mark.usefixtures("nixl")
def test_damaged_memory_is_found(make_real_engine: MakeEngine) -> None:
    """Checksums are looked at behind the transport, whichever it is."""

    def damage(wire: Wire) -> None:
        wire.spoil = lambda header, frames: [
            (header, flipped(frames, 40) if frames else frames)
        ]

    is_right, failures, num_brought = pass_on(make_real_engine, damage)

    assert is_right
    assert failures == {"load": {"checksum": 1}}
    assert num_brought in {0, 4}  # messages may come in another order


@pytest.mark.parametrize("nixl", ["stand-in"], indirect=True)
@pytest.mark.usefixtures("nixl")
def test_failing_reads_end_with_the_deadline(
    make_real_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be read is asked for again, and slots are used again."""
    monkeypatch.setattr(FakeAgent, "fails", True)

    assert pass_on(make_real_engine) == (True, {"load": {"deadline": 1}}, 0)

"""Choice of the device, captured sizes, and shares of a GPU's memory."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from hookline.config import (
    CacheConfig,
    Device,
    EngineConfig,
    ExecutorConfig,
    ParallelConfig,
    SchedulerConfig,
)
from hookline.engine.decoder.layer_shapes import LayerCache
from hookline.engine.worker.input_batch import SamplePlaces, StepInputs
from hookline.exceptions import ConfigError
from hookline_kernels import CPU
from hookline_kernels.gpu.graph_sizes import MOST_CAPTURED, GraphSizes
from hookline_kernels.runtime.gpu_memory import GpuMemory, NoRoomError, graph_bytes
from hookline_models.machines.choosing import check_gpu, choose_machine
from hookline_models.machines.cpu import CpuMachine
from hookline_models.machines.device_feed import NOWHERE, DeviceFeed
from hookline_models.machines.gpu_share import (
    VISIBLE,
    GpuShare,
    _take,
    divide,
    take_gpu,
)
from hookline_models.machines.memory import count_blocks, host_room

GIB = 1 << 30
LAYER = LayerCache(num_heads=8, num_kv_heads=2, key_dim=64, value_dim=64)

without_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="there is a CUDA device"
)


@without_gpu
def test_cuda_without_a_gpu_is_one_clear_error() -> None:
    """It names the option, and what to check."""
    with pytest.raises(ConfigError, match=r"device.*no CUDA device.*driver"):
        choose_machine(ExecutorConfig(device=Device.CUDA))


@without_gpu
@pytest.mark.parametrize("device", [Device.AUTO, Device.CPU])
def test_without_a_gpu_the_cpu_is_used(device: Device) -> None:
    """Without graphs, for any option."""
    machine = choose_machine(ExecutorConfig(device=device))

    assert machine.platform == CPU
    assert isinstance(machine, CpuMachine)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.01])
def test_a_share_of_memory_is_above_0_and_1_at_most(share: float) -> None:
    """Others are refused by the option's name."""
    with pytest.raises(ConfigError, match="gpu-memory-utilization"):
        CacheConfig(gpu_memory_utilization=share)


@pytest.mark.parametrize(
    ("most", "sizes"),
    [
        (1, (1,)),
        (3, (1, 2, 3)),
        (8, (1, 2, 4, 8)),
        (20, (1, 2, 4, 8, 16, 20)),
        (260, (1, 2, 4, *range(8, 257, 8), 260)),
    ],
)
def test_sizes_go_up_to_the_most_requests(most: int, sizes: tuple[int, ...]) -> None:
    """They are close together where steps are short."""
    assert GraphSizes.up_to(most).sizes == sizes


def test_the_number_of_graphs_is_bounded() -> None:
    """For any number of requests."""
    sizes = GraphSizes.up_to(100_000)

    assert sizes.sizes[-1] == MOST_CAPTURED
    assert len(sizes.sizes) < 60
    assert sizes.holding(MOST_CAPTURED + 1) is None


@pytest.mark.parametrize("most", [1, 5, 100, 300])
def test_each_number_of_requests_finds_the_next_size(most: int) -> None:
    """Its own, or the next larger one."""
    sizes = GraphSizes.up_to(most)

    for count in range(1, most + 1):
        found = sizes.holding(count)
        assert found == min(size for size in sizes.sizes if size >= count)
    assert sizes.holding(most + 1) is None
    assert GraphSizes().holding(1) is None


def step(
    query_lens: list[int], seq_lens: list[int], num_drafts: list[int] | None = None
) -> StepInputs:
    """A step whose tokens and slots are all different."""
    total = sum(query_lens)
    ends = np.cumsum(query_lens)
    rows = np.arange(len(query_lens))
    return StepInputs(
        rows=rows,
        token_ids=np.arange(total) + 100,
        positions=np.arange(total) + 200,
        slots=np.arange(total) + 300,
        query_lens=np.array(query_lens),
        seq_lens=np.array(seq_lens),
        query_starts=np.cumsum([0, *query_lens]),
        block_tables=np.arange(2 * len(query_lens), dtype=np.int32).reshape(-1, 2),
        is_sampling=np.ones(len(query_lens), np.bool_),
        num_drafts=None if num_drafts is None else np.array(num_drafts),
        samples=SamplePlaces(rows, np.array(seq_lens), ends - 1),
    )


def new_feed() -> DeviceFeed:
    return DeviceFeed(
        torch.device("cpu"),
        max_tokens=20,
        max_num_seqs=8,
        max_num_blocks=4,
        sizes=GraphSizes((1, 2, 4, 8)),
    )


def test_drafts_are_decodes_of_a_graph() -> None:
    """One token, and one with two drafts, are four decodes."""
    feed = new_feed()
    feed.captured(4, 64)

    given = feed.batch(step([1, 3], [5, 9], [0, 2]), np.array([0, 1, 2, 3]))

    assert given.query_lens == [1, 1, 1, 1]
    assert given.seq_lens == [5, 7, 8, 9]
    assert given.num_decodes == 4
    assert given.block_tables.tolist() == [[0, 1], [2, 3], [2, 3], [2, 3]]


def test_decodes_are_filled_up_with_rows_that_write_nowhere() -> None:
    """The padding of a graph's batch is empty requests."""
    feed = new_feed()
    whole = feed.captured(4, 64)
    feed.batch(step([9, 5], [9, 5]), np.array([8, 13]))

    given = feed.batch(step([1, 1, 1], [5, 6, 7]), np.array([0, 1, 2]))

    assert given.token_ids.tolist() == [100, 101, 102]
    assert given.block_tables.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert whole.token_ids.tolist() == [100, 101, 102, 0]
    assert whole.positions.tolist() == [200, 201, 202, 0]
    assert whole.slot_mapping.tolist() == [300, 301, 302, NOWHERE]
    assert whole.seq_lens_tensor.tolist() == [5, 6, 7, 0]
    assert whole.block_tables[:3, :2].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert whole.seq_lens == [64] * 4


def test_buffers_stay_where_they_are() -> None:
    """Graphs hold their addresses."""
    feed = new_feed()
    whole = feed.captured(2, 64)

    given = feed.batch(step([1, 1], [5, 6]), np.array([0, 1]))

    for own, read in (
        (given.token_ids, whole.token_ids),
        (given.positions, whole.positions),
        (given.slot_mapping, whole.slot_mapping),
        (given.seq_lens_tensor, whole.seq_lens_tensor),
        (given.block_tables, whole.block_tables),
    ):
        assert own.data_ptr() == read.data_ptr()


def memory(**others: int) -> GpuMemory:
    """The memory of a device of 80 GiB."""
    sizes = {"outside": GIB, "weights": 16 * GIB, "activations": 3 * GIB, "graphs": GIB}
    return GpuMemory(total=80 * GIB, **{**sizes, **others})


def test_the_pool_gets_the_share_less_what_is_taken() -> None:
    """Weights, activations, graphs and other programs are subtracted."""
    assert memory().room(0.9) == 72 * GIB - 21 * GIB
    assert memory().room(1.0) == 80 * GIB - 21 * GIB


def test_no_room_is_an_error_with_the_memory_use() -> None:
    """It names the options that help."""
    with pytest.raises(NoRoomError) as caught:
        memory(weights=71 * GIB).room(0.9)

    assert "max-num-batched-tokens or max-num-seqs" in str(caught.value)
    assert f"weights {71 * 1024} MiB" in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second", "count", "expected"),
    [(100, 10, 5, 140), (100, 0, 1, 100), (0, 0, 0, 0), (-5, -3, 4, 0)],
)
def test_later_graphs_share_the_firsts_memory(
    first: int, second: int, count: int, expected: int
) -> None:
    """Memory that is freed meanwhile does not count."""
    assert graph_bytes(first, second, count) == expected


@pytest.mark.parametrize(
    ("cache", "blocks"),
    [
        (CacheConfig(num_kv_blocks=7), 7),
        (CacheConfig(kv_cache_memory=10 * 16 * 1024), 5),
        (CacheConfig(), 3),
        (CacheConfig(block_size=1), 48),
    ],
)
def test_blocks_fill_the_room_unless_their_number_is_given(
    cache: CacheConfig, blocks: int
) -> None:
    """Two float32 layers take 2 KiB a token, a block of 16 tokens 32 KiB."""
    found = count_blocks(
        cache,
        SchedulerConfig(),
        [LAYER, LAYER],
        dtype=torch.float32,
        max_model_len=1000,
        room=lambda: 3 * 32 * 1024 + 100,
    )

    assert found == blocks


TWO_ENGINES = EngineConfig.from_options(data_parallel_size=2)
FOUR_ENGINES = EngineConfig.from_options(data_parallel_size=4)
SetGpus = Callable[..., None]


@pytest.fixture
def set_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[SetGpus]:
    """Simulates a number of GPUs, and a variable that names those to use."""
    _take.cache_clear()

    def set_them(count: int, visible: str | None = None) -> None:
        def counted() -> int:
            named = os.environ.get(VISIBLE)
            return count if named is None else min(count, len(named.split(",")))

        monkeypatch.setattr("torch.cuda.device_count", counted)
        monkeypatch.setenv(VISIBLE, visible or "")
        if visible is None:
            monkeypatch.delenv(VISIBLE)

    yield set_them
    _take.cache_clear()


@pytest.mark.parametrize(
    ("engines", "gpus", "expected"),
    [
        (2, 2, [(0, 1), (1, 1)]),
        (2, 8, [(0, 1), (1, 1)]),
        (2, 1, [(0, 2), (0, 2)]),
        (5, 2, [(0, 3), (1, 2), (0, 3), (1, 2), (0, 3)]),
    ],
)
def test_engines_are_divided_among_gpus(
    engines: int, gpus: int, expected: list[tuple[int, int]]
) -> None:
    """One after another, and each knows how many share its GPU."""
    assert [divide(place, engines, gpus) for place in range(engines)] == expected


@pytest.mark.parametrize(
    ("count", "visible", "config", "expected"),
    [
        (8, None, TWO_ENGINES.of_engine(1), GpuShare("1")),
        (8, "5,3", TWO_ENGINES.of_engine(1), GpuShare("3")),
        (8, "GPU-1f, GPU-2a", TWO_ENGINES.of_engine(0), GpuShare("GPU-1f")),
        (1, None, TWO_ENGINES.of_engine(1), GpuShare("0", 2)),
        (3, None, FOUR_ENGINES.of_engine(3), GpuShare("0", 2)),
        (
            2,
            None,
            FOUR_ENGINES.of_engine(6),
            GpuShare("0", 2),
        ),  # of a machine with 4 to 7
    ],
)
def test_an_engine_sees_its_own_gpu_alone(
    count: int,
    visible: str | None,
    config: EngineConfig,
    expected: GpuShare,
    set_gpus: SetGpus,
) -> None:
    """It is one of those that the process may use, and chosen once."""
    set_gpus(count, visible)

    assert take_gpu(config) == take_gpu(config) == expected
    assert os.environ[VISIBLE] == expected.name


@pytest.mark.parametrize(
    "config",
    [
        EngineConfig(),
        replace(TWO_ENGINES, in_process=True),
        replace(TWO_ENGINES, executor=ExecutorConfig(device=Device.CPU)),
    ],
    ids=["alone", "in one process", "on CPUs"],
)
def test_other_engines_leave_cuda_the_choice(
    config: EngineConfig, set_gpus: SetGpus
) -> None:
    """The process may use all GPUs, as before."""
    set_gpus(2)

    assert take_gpu(config) == GpuShare()
    assert VISIBLE not in os.environ


def test_without_gpus_nothing_is_chosen(set_gpus: SetGpus) -> None:
    """Neither where none exists, nor where the process may use none."""
    set_gpus(0)
    assert take_gpu(TWO_ENGINES) == GpuShare()
    assert VISIBLE not in os.environ

    set_gpus(0, "")
    assert take_gpu(TWO_ENGINES) == GpuShare()


def test_a_gpu_that_is_chosen_too_late_is_an_error(
    set_gpus: SetGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all engines would compute on the first one."""
    set_gpus(2)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)

    with pytest.raises(ConfigError, match="data-parallel-size: CUDA started before"):
        take_gpu(TWO_ENGINES)


@pytest.mark.parametrize(
    ("config", "option"),
    [
        (replace(TWO_ENGINES, in_process=True), "in-process"),
        (EngineConfig(cache=CacheConfig(sibling_blocks=7)), "data-parallel-size"),
        (
            replace(TWO_ENGINES, parallel=ParallelConfig(enable_expert_parallel=True)),
            "enable-expert-parallel",
        ),
        (
            EngineConfig(parallel=ParallelConfig(tensor_parallel_size=2)),
            "tensor-parallel-size",
        ),
        (
            EngineConfig(parallel=ParallelConfig(pipeline_parallel_size=2)),
            "pipeline-parallel-size",
        ),
    ],
)
def test_what_gpus_cannot_have_is_refused(config: EngineConfig, option: str) -> None:
    """By the option's name; several engines in their own processes are served."""
    check_gpu(EngineConfig())
    check_gpu(TWO_ENGINES)
    with pytest.raises(ConfigError, match=option):
        check_gpu(config)


def test_engines_divide_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pools together take the half that one engine would take."""
    monkeypatch.setattr(
        "hookline_models.machines.memory.available_memory", lambda: 12 * GIB
    )

    assert [host_room(engines) for engines in (1, 2, 3)] == [6 * GIB, 3 * GIB, 2 * GIB]


def test_an_engine_that_joins_has_as_many_blocks_as_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever else is configured; it is refused where they do not fit."""
    monkeypatch.setattr(
        "hookline_models.machines.memory.available_memory", lambda: 32 * 1024
    )

    def blocks(siblings: int) -> int:
        return count_blocks(
            CacheConfig(num_kv_blocks=7, sibling_blocks=siblings),
            SchedulerConfig(),
            [LAYER, LAYER],
            dtype=torch.float32,
            max_model_len=1000,
            room=lambda: 0,
        )

    assert blocks(1) == 1
    with pytest.raises(ConfigError, match="2 KV blocks, as many as other engines have"):
        blocks(2)

"""What a proxy knows of an instance, and which of several it chooses."""

import pytest

from hookline_gateway.upstreams.instance import ERRORS_IN_A_ROW, Instance
from hookline_gateway.upstreams.load import Load, read_load
from hookline_gateway.upstreams.pool import Pool

HOOKLINE = """\
# HELP hookline_requests_running Requests in the batch.
# TYPE hookline_requests_running gauge
hookline_requests_running{engine="0",model_name="a } b"} 2.0
hookline_requests_running{engine="1",model_name="a } b"} 1.0
hookline_requests_waiting{engine="0",model_name="m",reason="capacity"} 3.0
hookline_requests_waiting{engine="0",model_name="m",reason="remote_kv"} 4.0
hookline_kv_cache_usage_ratio{engine="0"} 0.25
hookline_kv_cache_usage_ratio{engine="1"} 0.5
hookline_requests_waiting_other 100.0
"""
VLLM = """\
vllm:num_requests_running{engine="0"} 20.0
vllm:num_requests_waiting{engine="0"} 30.0
vllm:kv_cache_usage_perc{engine="0"} 0.125
"""
SGLANG = """\
sglang:num_running_reqs{model_name="m"} 2.0
sglang:num_queue_reqs{model_name="m"} 3.0
sglang:token_usage{model_name="m"} 0.25
"""
LLAMA = """\
llamacpp:requests_processing 1
llamacpp:requests_deferred 2
"""
INFO = """\
hookline_engine_info{engine="0",dtype="a \\" b",max_model_len="4096"} 1.0
hookline_engine_info{engine="1",max_model_len="2048",max_num_seqs="8"} 1.0
"""


REMOTE = {"remote_kv": 4.0}
RANK = 'engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="{}",tp_rank="{}"'


def sglang(*series: tuple[str, float], name: str = "num_running_reqs") -> str:
    """A page with these series of the one family, and one request that waits."""
    lines = [f"sglang:{name}{{{labels}}} {value}\n" for labels, value in series]
    first = RANK.format(0, 0)
    fixed = {"num_running_reqs": 2.0, "num_queue_reqs": 1.0}
    lines += [
        f"sglang:{each}{{{first}}} {value}\n"
        for each, value in fixed.items()
        if each != name
    ]
    return "".join(lines)


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def made(clock: Clock | None = None, number: int = 1) -> Instance:
    url = f"http://host:{number}/base/"
    return Instance("decode", url, poll_seconds=1.0, clock=clock or Clock())


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (HOOKLINE, Load(10, 0.5, waiting=7, held=REMOTE)),
        (VLLM, Load(50, 0.125, waiting=30)),
        (HOOKLINE + VLLM, Load(10, 0.5, waiting=7, held=REMOTE)),
        (HOOKLINE + INFO, Load(10, 0.5, 2048, waiting=7, held=REMOTE)),
        (
            VLLM + INFO.replace("4096", "x").replace("2048", "0"),
            Load(50, 0.125, waiting=30),
        ),
        (VLLM.replace("20.0", "2e+06"), Load(2_000_030, 0.125, waiting=30)),
        (SGLANG, Load(5, 0.25, waiting=3)),
        (LLAMA, Load(3, 0.0, waiting=2, has_kv_usage=False)),
        ("hookline_requests_running 1\n", None),
        (HOOKLINE.replace("2.0", "x").replace("1.0", "NaN"), None),
        ("", None),
        ("<html>\x00", None),
    ],
    ids=str,
)
def test_load_is_read_off_metrics(page: str, expected: Load | None) -> None:
    """All engines and reasons together, of the first dialect that is there."""
    assert read_load(page) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        pytest.param(
            sglang((RANK.format(0, 0), 3), (RANK.format(1, 0), 3)),
            Load(4, 0, waiting=1, has_kv_usage=False),
            id="the stages of a pipeline have the same requests",
        ),
        pytest.param(
            sglang((RANK.format(0, 0), 3), (RANK.format(0, 1), 2)),
            Load(4, 0, waiting=1, has_kv_usage=False),
            id="so have ranks, if all of them tell",
        ),
        pytest.param(
            sglang(
                (f'dp_rank="0",{RANK.format(0, 0)}', 3),
                (f'dp_rank="1",{RANK.format(0, 1)}', 4),
            ),
            Load(8, 0, waiting=1, has_kv_usage=False),
            id="engines have requests of their own",
        ),
        pytest.param(
            sglang(
                (f'{RANK.format(0, 0)},priority=""', 3),
                (f'{RANK.format(0, 0)},priority="1"', 1),
                (f'{RANK.format(0, 0)},priority="5"', 2),
            ),
            Load(4, 0, waiting=1, has_kv_usage=False),
            id="priorities share what is told in sum",
        ),
        pytest.param(
            sglang((RANK.format(0, 0), 4), name="num_grammar_queue_reqs"),
            Load(7, 0, waiting=5, has_kv_usage=False, held={"grammar": 4.0}),
            id="those that wait for grammars are beside the queue",
        ),
        pytest.param(
            sglang((RANK.format(0, 0), 4), name="num_decode_transfer_queue_reqs"),
            Load(7, 0, waiting=5, has_kv_usage=False, held={"remote_kv": 4.0}),
            id="and those that wait for KV",
        ),
        pytest.param(
            sglang((RANK.format(0, 0), 40960.0), name="context_len"),
            Load(3, 0, 40960, waiting=1, has_kv_usage=False),
            id="the context",
        ),
    ],
)
def test_load_of_sglang_counts_each_request_once(page: str, expected: Load) -> None:
    """Its series are of ranks, priorities and queues, not only of engines."""
    assert read_load(page) == expected


def test_name_is_the_url_without_its_scheme() -> None:
    """Neither has a slash at its end, and no two instances have one name."""
    assert (made().url, made().name) == ("http://host:1/base", "host:1/base")


def test_own_requests_are_counted_between_polls() -> None:
    """They are added to and subtracted from the reported load."""
    instance = made()
    instance.add_request()
    instance.add_request()
    instance.record_load(Load(5, 0.5))
    instance.add_request()
    assert instance.requests == 6
    instance.drop_request()
    assert instance.requests == 5
    instance.drop_request()
    instance.drop_request()
    assert instance.requests == 3


def test_instance_has_at_least_what_the_route_gave_it() -> None:
    """Even if it reported less: its page can be outdated."""
    instance = made()
    instance.add_request()
    assert instance.requests == 1
    instance.record_load(Load(0, 0.0))
    instance.add_request()
    assert instance.requests == 2


def test_old_load_is_ignored() -> None:
    """Without a recent report only the proxy's own requests count."""
    clock = Clock()
    instance = made(clock)
    instance.record_load(Load(5, 0.5))
    assert (instance.requests, instance.kv_usage) == (5, 0.5)

    clock.now += 5.1

    assert (instance.requests, instance.kv_usage) == (0, 0.0)


def test_answer_brings_an_instance_up() -> None:
    """So does a health check; only what has answered since counts as seen."""
    instance = made()
    assert (instance.is_up, instance.is_seen) == (True, False)

    for comes_back in (instance.answered, instance.recovered):
        instance.lost("gone")
        assert (instance.is_up, instance.is_seen) == (False, False)
        comes_back()
        assert (instance.is_up, instance.is_seen) == (True, True)


def test_instance_that_is_down_longest_is_the_last_resort() -> None:
    """Not one that is up; one that says itself that it is not ready comes last."""
    clock = Clock()
    pool = Pool([made(clock, number) for number in range(1, 5)])
    first, second, third, fourth = pool.instances
    for each in (third, second):
        clock.now += 1
        each.lost("gone")
    first.lost("loading", is_unready=True)

    assert pool.last_resort() is third
    assert pool.last_resort([third]) is second
    assert pool.last_resort([third, second]) is first
    assert pool.last_resort([third, second, first]) is None
    clock.now += 1
    third.lost("still gone")
    assert pool.last_resort() is second
    assert fourth.is_up


def test_longest_sequence_is_known_if_all_tell_theirs() -> None:
    """Of those that are up: any of them may be asked."""
    pool = Pool([made(number=number) for number in range(1, 4)])
    first, second, third = pool.instances
    first.record_load(Load(0, 0.0, 1024))
    second.record_load(Load(0, 0.0, 2048))
    assert pool.max_model_len is None

    third.lost("gone")

    assert pool.max_model_len == 2048


def test_errors_in_a_row_take_an_instance_down() -> None:
    """A success between errors resets the count; health checks do not."""
    instance = made()
    for _ in range(ERRORS_IN_A_ROW - 1):
        instance.failed("500")
    instance.answered()
    for _ in range(ERRORS_IN_A_ROW - 1):
        instance.failed("500")
        instance.recovered()
    assert instance.is_up

    instance.failed("500")
    assert not instance.is_up
    instance.recovered()
    assert instance.is_up
    instance.failed("500")
    assert not instance.is_up


def test_fewest_requests_win() -> None:
    """Equals take turns, and the emptier cache goes before them."""
    pool = Pool([made(number=number) for number in range(1, 4)])
    first, second, third = pool.instances
    assert [pool.choose() for _ in range(4)] == [first, second, third, first]

    second.record_load(Load(0, 0.2))
    third.record_load(Load(0, 0.1))
    first.record_load(Load(1, 0.0))
    assert [pool.choose() for _ in range(2)] == [third, third]


def test_full_cache_comes_last() -> None:
    """An instance that would preempt is chosen only where there is no other."""
    pool = Pool([made(number=number) for number in range(1, 3)])
    first, second = pool.instances
    first.record_load(Load(1, 0.99))
    second.record_load(Load(50, 0.5))

    assert pool.choose() is second
    assert pool.choose([second]) is first


def test_instances_that_are_down_are_not_chosen() -> None:
    """Excluded ones are not chosen either."""
    pool = Pool([made(number=number) for number in range(1, 3)])
    first, second = pool.instances
    first.lost("gone")

    assert pool.up == 1
    assert pool.choose() is second
    assert pool.choose([second]) is None
    assert not pool.has_other([second])
    assert pool.has_other([])

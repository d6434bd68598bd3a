"""Servers behind another load balancer have their own engines, by their numbers."""

import pytest

from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.slow

OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--num-kv-blocks", "256"),
    *("--data-parallel-size", "4"),
)
BODY = {"model": "demo", "prompt": [5, 6, 7], "max_tokens": 2}
RANK = "X-data-parallel-rank"


def ask(server: Server, rank: int) -> int:
    return server.post("/v1/completions", BODY, {RANK: str(rank)})[0]


@pytest.mark.parametrize(
    ("options", "here"),
    [
        (("--data-parallel-rank", "3"), {3}),
        (
            (
                *("--data-parallel-hybrid-lb", "--api-server-count", "2"),
                *("--data-parallel-size-local", "2", "--data-parallel-start-rank", "2"),
            ),
            {2, 3},
        ),
    ],
    ids=["external", "hybrid"],
)
def test_a_server_has_the_engines_of_its_numbers(
    options: tuple[str, ...], here: set[int]
) -> None:
    """It serves with them, in all its processes, and refuses other numbers."""
    with serving(*OPTIONS, *options) as server:
        statuses = {rank: ask(server, rank) for rank in range(5)}
        for index in here:
            server.wait_for("hookline_requests_received_total", 1, engine=str(index))
        others = {
            rank
            for rank in set(range(4)) - here
            if server.find("hookline_engine_up", engine=str(rank)) is not None
        }

    assert statuses == {rank: 200 if rank in here else 400 for rank in range(5)}
    assert others == set()

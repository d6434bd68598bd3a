"""The saturation that decides is the one that `/metrics` shows."""

from collections.abc import Iterator

import pytest

from hookline_testing.elastic_front_end import ElasticFrontEnd
from hookline_testing.oracle import Oracle


@pytest.fixture
def elastic(llama: Oracle) -> Iterator[ElasticFrontEnd]:
    made = ElasticFrontEnd(llama.folder)
    yield made
    made.front_end.close()


def test_it_is_that_of_the_metrics(elastic: ElasticFrontEnd) -> None:
    """Of each engine, to the last digit; that of an engine that has left is 0."""
    saturations = elastic.front_end.saturations
    assert saturations is not None
    elastic.grow(2)
    for _ in range(40):
        elastic.submit(20)
        elastic.take()
    elastic.drive()
    values = {str(index): saturations.value(index) for index in (0, 1)}
    shown = elastic.totals("hookline_saturation_ratio")
    elastic.scaling.want(1)
    elastic.drive()

    assert values == shown
    assert min(values.values()) > 0
    assert saturations.value(1) == 0.0


def test_a_dead_engine_has_none(elastic: ElasticFrontEnd) -> None:
    """Another one in its place begins with nothing."""
    saturations = elastic.front_end.saturations
    assert saturations is not None
    elastic.grow(2)
    for _ in range(40):
        elastic.submit(20, to=1)
        elastic.take()
    elastic.drive()
    before = saturations.value(1)
    elastic.client.kill(1)
    elastic.take()
    dead = saturations.value(1)
    elastic.grow(2)

    assert before > 0
    assert dead == saturations.value(1) == 0.0

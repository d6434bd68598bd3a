"""A view of prefixes is exact for what it was told, and bounded whatever it missed."""

import random
from collections import OrderedDict
from itertools import takewhile

import pytest

from hookline.events import BlocksRemoved, BlocksStored, CacheChanges, CacheCleared
from hookline_cluster.balancing import prefix_view
from hookline_cluster.balancing.prefix_view import PrefixView

ENGINES = (0, 3, 70)
BOUND = 12
PROMPTS = [[bytes([group, at]) for at in range(6)] for group in range(8)]


class Plain:
    """The same, one engine at a time and without an index."""

    def __init__(self) -> None:
        self.cached: dict[int, OrderedDict[bytes, None]] = {
            index: OrderedDict() for index in ENGINES
        }

    def add(self, index: int, hashes: list[bytes]) -> None:
        for each in reversed(hashes):
            self.cached[index].pop(each, None)
            self.cached[index][each] = None
        while len(self.cached[index]) > BOUND:
            self.cached[index].popitem(last=False)

    def num_cached(self, hashes: list[bytes]) -> dict[int, int]:
        return {
            index: len(list(takewhile(cached.__contains__, hashes)))
            for index, cached in self.cached.items()
        }


@pytest.mark.parametrize("seed", range(5))
def test_look_ups_of_all_engines_agree_with_one_by_one(seed: int) -> None:
    """After any sequence of requests and reports, for every prompt."""
    source, plain = random.Random(seed), Plain()  # noqa: S311 - a test
    view = PrefixView(dict.fromkeys(ENGINES, BOUND))
    for number in range(300):
        index, prompt = source.choice(ENGINES), source.choice(PROMPTS)
        part = prompt[: source.randint(0, 6)]
        match source.randrange(8):
            case 0:
                view.change(index, CacheChanges(number, [CacheCleared()]))
                plain.cached[index].clear()
            case 1 | 2:
                view.change(index, CacheChanges(number, [BlocksRemoved(part)]))
                for each in part:
                    plain.cached[index].pop(each, None)
            case 3 | 4:
                stored = BlocksStored(part, None, [])
                view.change(index, CacheChanges(number, [stored]))
                plain.add(index, part)
            case _:
                view.add(index, part)
                plain.add(index, part)

        for whole in PROMPTS:
            assert view.num_cached(whole) == plain.num_cached(whole)
    assert view.num_blocks == sum(map(len, plain.cached.values()))


def test_reports_that_are_lost_cost_hits_and_no_memory() -> None:
    """Blocks whose removal was not heard are forgotten in their turn."""
    view = PrefixView({0: BOUND, 1: BOUND})
    for prompt in PROMPTS:
        view.change(0, CacheChanges(1, [BlocksStored(prompt, None, [])]))

    found = [view.num_cached(prompt)[0] for prompt in PROMPTS]

    assert found == [0] * 6 + [6, 6]
    assert view.num_blocks == BOUND
    view.clear(0)
    assert view.num_blocks == 0
    assert not view._holders


def test_all_engines_share_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """However large and many their caches are."""
    monkeypatch.setattr(prefix_view, "MOST_BLOCKS", 8)
    view = PrefixView(dict.fromkeys(range(4), 1000))

    for index in range(4):
        for prompt in PROMPTS:
            view.add(index, prompt)

    assert view.num_blocks == 8
    assert view.num_cached(PROMPTS[-1]) == dict.fromkeys(range(4), 2)


def test_engines_join_and_leave() -> None:
    """One that joins has nothing, one that leaves is forgotten, bounds are divided."""
    view = PrefixView({0: 100})
    prompt = [bytes([at]) for at in range(6)]
    view.add(0, prompt)
    view.join(1, 50)
    joined = view.num_cached(prompt)
    view.add(1, prompt[:4])
    both = view.num_cached(prompt)
    view.join(1, 50)
    again = view.num_cached(prompt)
    view.add(1, prompt[:2])
    view.leave(0)

    assert joined == {0: 6, 1: 0}
    assert both == {0: 6, 1: 4}
    assert again == {0: 6, 1: 0}
    assert view.num_cached(prompt) == {1: 2}
    assert view.num_blocks == 2


def test_a_bound_that_shrinks_is_reached_little_by_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each prompt forgets as much again, so that none takes long."""
    monkeypatch.setattr(prefix_view, "MOST_BLOCKS", 40)
    view = PrefixView({0: 100})
    view.add(0, [bytes([0, at]) for at in range(40)])
    view.join(1, 100)
    sizes = []
    for number in range(1, 12):
        view.add(0, [bytes([number, at]) for at in range(4)])
        sizes.append(view.num_blocks)

    assert sizes == [36, 32, 28, 24, *[20] * 7]

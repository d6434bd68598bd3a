"""Requests that wait for an engine's replacement, as their front ends have told."""

from collections.abc import Collection, Mapping

from hookline.request_ids import client_of
from hookline.stats.iteration_stats import IterationStats


class WaitingRequests:
    """Ids of requests that no engine has, and that end with their front end."""

    def __init__(self) -> None:
        """Begins with none."""
        self._waiting: dict[int, dict[int, set[int]]] = {}

    def wait(self, front_end: int, engine_index: int, ids: Collection[int]) -> None:
        """Notes what a front end keeps of an engine that has just ended."""
        self._waiting.setdefault(front_end, {})[engine_index] = {*ids}

    def observe(
        self, front_end: int, engine_index: int, iteration: IterationStats
    ) -> None:
        """Forgets requests that an engine has again, or that have ended."""
        own = self._waiting.get(front_end, {})
        if (ids := own.get(engine_index)) and (
            iteration.resubmitted or iteration.moved >= len(ids)
        ):
            del own[engine_index]
        for each in iteration.finished:
            for ids in self._waiting.get(client_of(each.request_id), {}).values():
                ids.discard(each.request_id)

    def left(self, front_end: int) -> Mapping[int, set[int]]:
        """Returns the requests that end with a front end, by engine; forgets them."""
        return self._waiting.pop(front_end, {})

"""Joins what ranks report of adapters: each reads the part of its own layers."""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from hookline_lora.messages import REPORTS, AdapterReports, LoadedWeights

_Outcome = LoadedWeights | str
"""A rank's outcome of an order to load: its weights, or why it has none."""


class JoinedReports:
    """The orders to load that some ranks, but not all, have carried out.

    An adapter is loaded once it is on all ranks, and has failed if it has on one. Ranks
    carry orders out one after another, so that the first outcomes belong together.
    """

    def __init__(self, num_ranks: int) -> None:
        self._outcomes: defaultdict[str, list[deque[_Outcome]]] = defaultdict(
            lambda: [deque() for _ in range(num_ranks)]
        )

    def join(self, reports: Sequence[AdapterReports]) -> AdapterReports:
        """Returns what all ranks together report of a step; `reports` are by rank."""
        for rank, report in enumerate(reports):
            outcomes: dict[str, _Outcome] = {**report.failed, **report.loaded}
            for digest, outcome in outcomes.items():
                self._outcomes[digest][rank].append(outcome)
        loaded, failed = {}, {}
        for digest, ranks in list(self._outcomes.items()):
            if not all(ranks):
                continue
            found = [each.popleft() for each in ranks]
            reasons = [each for each in found if isinstance(each, str)]
            if reasons:
                failed[digest] = reasons[0]
            else:
                loaded[digest] = _joined(found)
            if not any(ranks):
                del self._outcomes[digest]
        return AdapterReports(loaded, failed)


def _joined(outcomes: Sequence[_Outcome]) -> LoadedWeights:
    parts = [each for each in outcomes if isinstance(each, LoadedWeights)]
    return LoadedWeights(
        seconds=max(each.seconds for each in parts),
        num_bytes=sum(each.num_bytes for each in parts),
    )


def join_reports(num_ranks: int) -> Callable[[Sequence[object]], AdapterReports]:
    """Returns what `JoinedExtension.join_ranks` returns."""
    joined = JoinedReports(num_ranks)

    def join(sections: Sequence[object]) -> AdapterReports:
        return joined.join([REPORTS.typed(each) for each in sections])

    return join

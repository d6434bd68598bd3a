"""Acceptance of drafts, from a server's metrics before and after a run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hookline_server.cli.errors import UsageError
from hookline_server.cli.metrics_tools.page import MetricsPage, read_page

_SERIES = re.compile(
    r"(?P<prefix>\w+[:_])spec_decode_num_"
    r"(?P<what>drafts|draft_tokens|accepted_tokens|accepted_tokens_per_pos)(?:_total)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecDecodeCounts:
    """Counters of speculative decoding, summed over all engines.

    Attributes:
        by_position: Number of accepted tokens at each draft position.
    """

    drafts: float
    draft_tokens: float
    accepted_tokens: float
    by_position: Mapping[int, float]

    def since(self, before: "SpecDecodeCounts") -> "SpecDecodeCounts":
        """Returns the difference to earlier counts."""
        return SpecDecodeCounts(
            drafts=self.drafts - before.drafts,
            draft_tokens=self.draft_tokens - before.draft_tokens,
            accepted_tokens=self.accepted_tokens - before.accepted_tokens,
            by_position={
                position: count - before.by_position.get(position, 0.0)
                for position, count in sorted(self.by_position.items())
            },
        )

    @property
    def acceptance_rate(self) -> float:
        """Accepted draft tokens in percent."""
        return 100 * self.accepted_tokens / self.draft_tokens

    @property
    def acceptance_length(self) -> float:
        """Mean number of tokens per verified draft, including the model's own."""
        return 1 + self.accepted_tokens / self.drafts

    @property
    def position_rates(self) -> list[float]:
        """Fraction of the drafts accepted up to each position."""
        return [count / self.drafts for count in self.by_position.values()]


def spec_decode_counts(text: str) -> SpecDecodeCounts | None:
    """Reads the counters from a page of metrics; None if it has none."""
    try:
        page = read_page(text, "the server's metrics")
    except UsageError:
        return None
    totals = _totals(page)
    if ("drafts", None) not in totals:
        return None
    return SpecDecodeCounts(
        drafts=totals["drafts", None],
        draft_tokens=totals.get(("draft_tokens", None), 0.0),
        accepted_tokens=totals.get(("accepted_tokens", None), 0.0),
        by_position={
            position: total
            for (_, position), total in totals.items()
            if position is not None
        },
    )


def growth(
    before: SpecDecodeCounts | None, after: SpecDecodeCounts | None
) -> SpecDecodeCounts | None:
    """Returns the counts of the run; None if nothing was drafted."""
    if before is None or after is None:
        return None
    grown = after.since(before)
    return grown if grown.drafts > 0 and grown.draft_tokens > 0 else None


def _totals(page: MetricsPage) -> dict[tuple[str, int | None], float]:
    """Sums by counter and position, of the first dialect on the page."""
    totals: dict[tuple[str, int | None], float] = {}
    dialect: str | None = None
    for sample in page.samples:
        match = _SERIES.fullmatch(sample.name)
        if match is None or match["prefix"] != (dialect or match["prefix"]):
            continue
        dialect = match["prefix"]
        position = sample.labels.get("position")
        key = match["what"], None if position is None else int(position)
        totals[key] = totals.get(key, 0.0) + sample.value
    return totals

"""Statistics of structured outputs: grammars, and what following them costs."""

from collections.abc import Mapping

import msgspec

from hookline.config.extensions import GRAMMARS
from hookline.events import StepRecord
from hookline.frozen import EMPTY
from hookline.sections import Section
from hookline.stats.scheduler_stats import SchedulerStats


class GrammarStats(msgspec.Struct, frozen=True, array_like=True):
    """Grammars since the engine's start.

    Attributes:
        hits: Requests whose grammar had been compiled, or refused, before.
        misses: Requests whose grammar had to be compiled, or was being compiled.
        ended: Grammars whose compiling has ended, by outcome: `compiled`, `refused`
            (wrong or not supported), `limit` (too much time or memory) and `failed` (by
            a fault of the backend).
        cache_bytes: Bytes of compiled grammars that are kept.
    """

    hits: int = 0
    misses: int = 0
    ended: Mapping[str, int] = EMPTY
    cache_bytes: int = 0


class GrammarCompiling(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The compiling of one grammar, which has ended, whatever its outcome.

    Attributes:
        seconds: Time that it took, without waiting.
    """

    seconds: float


class GrammarUse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What grammars did in one step.

    Attributes:
        fill_ns: Time that filling masks took, while the model ran.
        apply_ns: Time that applying them took.
        forced_tokens: Accepted draft tokens that grammars had forced.
    """

    fill_ns: int = 0
    apply_ns: int = 0
    forced_tokens: int = 0


class GrammarNews(msgspec.Struct, array_like=True):
    """What has happened to grammars since the last output.

    Attributes:
        compilings: Grammars whose compiling has ended.
    """

    compilings: list[GrammarCompiling] = []


GRAMMAR_STATS = Section(GRAMMARS, GrammarStats)
GRAMMAR_USE = Section(GRAMMARS, GrammarUse)
GRAMMAR_NEWS = Section(GRAMMARS, GrammarNews)
"""Sections of states, of records and results, and of outputs."""

_NO_STATS = GrammarStats()
_NO_USE = GrammarUse()


def grammar_stats(stats: SchedulerStats) -> GrammarStats:
    """Returns an engine's grammars; zeros without the extension."""
    return GRAMMAR_STATS.read(stats.sections) or _NO_STATS


def grammar_use(record: StepRecord) -> GrammarUse:
    """Returns what grammars did in a step; zeros without the extension."""
    if not record.sections:
        return _NO_USE
    return GRAMMAR_USE.read(record.sections) or _NO_USE

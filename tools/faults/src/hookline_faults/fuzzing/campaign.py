"""What a campaign of fuzzing found: outcomes, stalls, leaks and faults."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hookline_faults.fuzzing.aftermath import Aftermath
from hookline_faults.fuzzing.case import Case
from hookline_faults.fuzzing.watching import Watched

STALL_SECONDS = 1.0
"""Longest wait of the canary that is allowed, less the machine's own."""
MOST_GROWTH_MB = 300.0
"""Most memory by which a process may have grown."""
_MOST_SHOWN = 40


class Sent(Protocol):
    """What was sent to a server, and what came of it."""

    @property
    def outcomes(self) -> Mapping[str, Counter[str]]:
        """How often cases of a kind ended in a way."""

    @property
    def faults(self) -> Sequence[tuple[Case, str]]:
        """Cases after which the server did something wrong, and what."""

    @property
    def num_faults(self) -> int:
        """Number of all such cases, of which `faults` has the first."""


@dataclass(slots=True)
class Campaign:
    """One server, the storm over it and what is left of it.

    Attributes:
        name: Name of the server's configuration.
        storm: What was sent, and what came of it.
        watched: What the canary saw.
        before_mb: Memory of each process before the storm.
        after: The server afterwards.
    """

    name: str
    storm: Sent
    watched: Watched
    before_mb: Mapping[str, float]
    after: Aftermath = field(default_factory=Aftermath)

    @property
    def num_cases(self) -> int:
        return sum(counts.total() for counts in self.storm.outcomes.values())

    @property
    def faults(self) -> list[str]:
        """Everything that is not as it must be."""
        found = [f"{case.kind}: {fault}" for case, fault in self.storm.faults]
        found += [f"canary: {k} ({n} times)" for k, n in self.watched.faults.items()]
        if (worst := self.watched.worst_own_seconds) > STALL_SECONDS:
            found.append(f"a stall of {worst:.2f} s, the machine's own left out")
        found += [f"leaked: {name} is {x:g}" for name, x in self.after.leaked.items()]
        for name, size in self.after.memory_mb.items():
            if size > self.before_mb[name] + MOST_GROWTH_MB:
                found.append(f"{name} has grown to {size:.0f} MB")
        return found + self.after.faults

    def lines(self) -> Iterable[str]:
        """Yields the report."""
        yield f"## {self.name}: {self.num_cases} cases"
        yield ""
        yield from outcome_table(self.storm.outcomes)
        yield ""
        worst, seen = self.watched.worst_seconds, self.watched.sighting
        yield (
            f"canary: {seen.health.count} answers of /health, longest "
            f"{worst['health']:.3f} s; {seen.stream.count} pieces of streams, longest "
            f"gap {worst['stream']:.3f} s; echo of the machine {worst['echo']:.3f} s; "
            f"longest less the machine's own {self.watched.worst_own_seconds:.3f} s"
        )
        grown = ", ".join(
            f"{name} {self.before_mb[name]:.0f} → {size:.0f} MB"
            for name, size in self.after.memory_mb.items()
        )
        log, leaked = self.after.log_bytes, len(self.after.leaked)
        yield f"memory: {grown}; log: {log} bytes; leaked: {leaked}"
        yield ""
        faults = self.faults
        yield f"faults: {len(faults)} (in {self.storm.num_faults} cases)"
        yield from (f"- {fault}" for fault in faults[:_MOST_SHOWN])


def outcome_table(outcomes: Mapping[str, Counter[str]]) -> Iterable[str]:
    """Yields the lines of a table: a row for each kind of case."""
    yield "| kind | cases | outcomes |"
    yield "|---|---|---|"
    for kind, counts in sorted(outcomes.items()):
        shown = ", ".join(f"{label} {count}" for label, count in counts.most_common())
        yield f"| {kind} | {counts.total()} | {shown} |"

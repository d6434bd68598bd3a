"""Who eats what: KV blocks, computing and queue time by tenant, priority or adapter."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hookline.clock import NANOSECONDS
from hookline_insight.activity import Activity
from hookline_insight.company import HeldBlocks, prefills
from hookline_insight.explainer import Explainer
from hookline_insight.lives import PREEMPTED, QUEUE
from hookline_insight.wording import percent, safe
from hookline_recording import RecordedRequest, RecordedStep
from hookline_recording.costs import apportion

MOST_NAMES = 20
"""So many eaters are told by name; all others together are one."""
OTHERS = "(others)"
NOBODY = "(none)"
BY: Mapping[str, Callable[[RecordedRequest], str]] = {
    "tenant": lambda request: _facts(request, "tenant"),
    "priority": lambda request: _facts(request, "priority"),
    "adapter": lambda request: _facts(request, "adapter"),
}


@dataclass(slots=True)
class Eaten:
    """What the requests of one tenant, priority or adapter took.

    Attributes:
        requests: Number of them.
        block_ns: KV blocks times the ns that they were held.
        compute_ns: Their share of the steps' time; of all, it is that time.
        queue_ns: Time in which they waited for admission.
    """

    requests: int = 0
    block_ns: int = 0
    compute_ns: int = 0
    queue_ns: int = 0

    def add(self, other: "Eaten") -> None:
        """Adds another's."""
        self.requests += other.requests
        self.block_ns += other.block_ns
        self.compute_ns += other.compute_ns
        self.queue_ns += other.queue_ns


class Usage:
    """What each request of a recording took."""

    def __init__(self, explainer: Explainer) -> None:
        """Goes through all steps once."""
        self._explainer = explainer
        self._of: defaultdict[int, Eaten] = defaultdict(Eaten)
        self._add_blocks()
        self._add_computing()
        for request_id in explainer.recording.requests:
            eaten = self._of[request_id]
            eaten.requests = 1
            eaten.queue_ns = sum(
                state.end - state.begin
                for state in explainer.lives.states(request_id)
                if state.name in (QUEUE, PREEMPTED)
            )

    def by(self, kind: str) -> dict[str, Eaten]:
        """Returns what each took, the most computing first, and at most 21 names.

        Args:
            kind: One of `BY`.
        """
        found: defaultdict[str, Eaten] = defaultdict(Eaten)
        requests = self._explainer.recording.requests
        for request_id, eaten in self._of.items():
            if request_id in requests:
                found[BY[kind](requests[request_id])].add(eaten)
        order = sorted(found, key=lambda name: -found[name].compute_ns)
        told = {name: found[name] for name in order[:MOST_NAMES]}
        for name in order[MOST_NAMES:]:
            told.setdefault(OTHERS, Eaten()).add(found[name])
        return told

    def of(self, request_id: int) -> Eaten:
        """Returns what one request took."""
        return self._of[request_id]

    def _add_blocks(self) -> None:
        steps, held = self._explainer.steps, HeldBlocks(self._explainer.steps)
        times = [each.planned.at if each.planned else None for each in steps]
        ends = [*times[1:], self._explainer.until]
        for index, (begin, end) in enumerate(zip(times, ends, strict=False)):
            if begin is None:
                continue
            length = (self._explainer.until if end is None else end) - begin
            for request_id, blocks in held.after(index).items():
                self._of[request_id].block_ns += blocks * self._held_ns(
                    request_id, begin, length
                )

    def _held_ns(self, request_id: int, begin: int, length: int) -> int:
        """Returns how much of a span a request lived; its end frees its blocks."""
        request = self._explainer.recording.requests.get(request_id)
        if request is None or request.finished is None:
            return length
        return max(0, min(length, request.finished.at - begin))

    def _add_computing(self) -> None:
        for span in self._explainer.activities:
            if span.activity is not Activity.EXECUTE or span.step is None:
                continue
            step = self._explainer.steps[span.step]
            names = list(step.request_tokens)
            parts = apportion(span.end - span.begin, self._weights(step))
            for request_id, ns in zip(names, parts, strict=True):
                self._of[request_id].compute_ns += ns

    def _weights(self, step: RecordedStep) -> list[float]:
        """Returns what each request of a step cost, with an equal part of the rest."""
        tokens, costs = step.request_tokens, self._explainer.costs
        if not costs.is_fitted:
            return [float(number) for number in tokens.values()]
        prompts, cost = prefills(step), costs.cost
        fixed = cost.fixed / max(1, len(tokens))
        return [
            fixed + (cost.prefill * prompts[each] if each in prompts else cost.decode)
            for each in tokens
        ]


def lines(usage: Usage, kind: str) -> Iterator[str]:
    """Yields who took most, and a table of who took what."""
    found = usage.by(kind)
    yield _most(found, kind)
    yield f"{kind:<24} requests  block-seconds  compute-seconds  queue-seconds"
    for name, eaten in found.items():
        yield (
            f"{safe(name)[:24]:<24} {eaten.requests:>8}"
            f"  {eaten.block_ns / NANOSECONDS:>13.2f}"
            f"  {eaten.compute_ns / NANOSECONDS:>15.3f}"
            f"  {eaten.queue_ns / NANOSECONDS:>13.3f}"
        )


def _most(found: Mapping[str, Eaten], kind: str) -> str:
    """Says who took most of the computing, and how much of all there was."""
    computed = sum(eaten.compute_ns for eaten in found.values())
    held = sum(eaten.block_ns for eaten in found.values())
    if not computed:
        return "nothing was computed."
    name, eaten = next(iter(found.items()))
    who = safe(name) if name in (NOBODY, OTHERS) else f"{kind} {safe(name)}"
    blocks = percent(eaten.block_ns / held if held else 0.0)
    return (
        f"{who} took {percent(eaten.compute_ns / computed)} of the computing and "
        f"{blocks} of the KV blocks' time."
    )


def fields(usage: Usage, kind: str) -> list[dict[str, object]]:
    """Returns it for machines."""
    return [
        {
            kind: name,
            "requests": eaten.requests,
            "kv_block_seconds": eaten.block_ns / NANOSECONDS,
            "compute_seconds": eaten.compute_ns / NANOSECONDS,
            "queue_seconds": eaten.queue_ns / NANOSECONDS,
        }
        for name, eaten in usage.by(kind).items()
    ]


def _facts(request: RecordedRequest, name: str) -> str:
    value = None if request.facts is None else getattr(request.facts, name)
    return NOBODY if value is None else str(value)

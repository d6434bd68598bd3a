"""Bound by what: which limit a recorded engine spent its time at, with the evidence."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hookline.clock import NANOSECONDS
from hookline_insight.activity import Activity
from hookline_insight.company import HeldBlocks, size_of
from hookline_insight.explainer import Explainer
from hookline_insight.wording import duration, percent
from hookline_metrics.saturation.bound import (
    BANDWIDTH,
    BUDGET,
    CLIENT,
    COMPUTE,
    FRONT_END,
    KV_SPACE,
    SLOTS,
    BoundTimes,
)
from hookline_metrics.saturation.costs import StepCost

WORDS = {
    COMPUTE: "compute",
    BANDWIDTH: "memory bandwidth",
    KV_SPACE: "KV space",
    SLOTS: "batch slots",
    BUDGET: "the token budget of a step",
    FRONT_END: "the front end",
    CLIENT: "its clients",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """What bounds an engine.

    Attributes:
        seconds: How long it was at each limit.
        evidence: What shows each of them, in words.
    """

    seconds: Mapping[str, float]
    evidence: Mapping[str, str]

    @property
    def name(self) -> str:
        """The limit at which it spent most of its time."""
        return max(self.seconds, key=self.seconds.__getitem__)

    @property
    def busy(self) -> "Bound":
        """The same while it had requests."""
        busy = {
            name: seconds
            for name, seconds in self.seconds.items()
            if name not in (CLIENT, FRONT_END)
        }
        return Bound(busy, self.evidence)

    def lines(self) -> Iterator[str]:
        """Says it: of all the time, and of that in which there were requests."""
        yield f"bound by {self._sentence()}"
        busy = self.busy
        if busy.name != self.name and any(busy.seconds.values()):
            yield f"while it had requests, by {busy._sentence()}"  # noqa: SLF001 - its own
        whole = sum(self.seconds.values()) or 1.0
        for name, seconds in sorted(self.seconds.items(), key=lambda each: -each[1]):
            if seconds:
                yield f"  {seconds / whole:6.1%}  {WORDS[name]}"

    def fields(self) -> dict[str, object]:
        """Returns it for machines."""
        return {
            "by": self.name,
            "while_busy": self.busy.name,
            "seconds": dict(self.seconds),
            "evidence": self.evidence[self.name],
        }

    def _sentence(self) -> str:
        whole = sum(self.seconds.values()) or 1.0
        share = percent(self.seconds[self.name] / whole)
        length = duration(round(whole * NANOSECONDS))
        return (
            f"{WORDS[self.name]} for {share} of {length}: {self.evidence[self.name]}."
        )


def bound_of(explainer: Explainer) -> Bound:
    """Tells what bounds an engine, by all of a recording."""
    steps, times = explainer.steps, BoundTimes(explainer.costs, None)
    prepared = _preparations(explainer)
    for span in explainer.activities:
        seconds = (span.end - span.begin) / NANOSECONDS
        if span.activity is Activity.UNKNOWN:
            continue
        if span.activity is Activity.BETWEEN and _is_idle(explainer, span.step):
            overlap = _overlap(prepared, span.begin, span.end)
            times.add_idle(seconds, overlap / NANOSECONDS)
        elif span.step is not None:
            step = steps[span.step]
            times.add_step(seconds, step.obstacle, *size_of(step))
    return Bound(times.seconds, _evidence(explainer))


def _is_idle(explainer: Explainer, index: int | None) -> bool:
    """Whether an engine has no request after a step."""
    if index is None:
        return True
    published = explainer.steps[index].published
    return published is not None and not (
        published.running or published.waiting or published.held
    )


def _preparations(explainer: Explainer) -> list[tuple[int, int]]:
    """Returns when the front end prepared requests, as intervals without overlap."""
    found = []
    for request_id, request in explainer.recording.requests.items():
        times = explainer.recording.front_end_times(request_id)
        if times is not None and request.facts is not None:
            found.append((times.arrived, request.facts.at))
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(found):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _overlap(intervals: list[tuple[int, int]], begin: int, end: int) -> int:
    return sum(max(0, min(end, last) - max(begin, first)) for first, last in intervals)


def _evidence(explainer: Explainer) -> dict[str, str]:
    """Says what shows each limit."""
    header = explainer.recording.header
    most = max((each.waiting for each in explainer.recording.states), default=0)
    waited = f"up to {most} request{'' if most == 1 else 's'} waited"
    held, blocks = _most_held(explainer), header.num_kv_blocks
    seqs, tokens = header.max_num_seqs, header.max_num_batched_tokens
    cost = explainer.costs.cost
    return {
        KV_SPACE: f"{waited} while others held up to {held} of {blocks} KV blocks",
        SLOTS: f"{waited} while all {seqs} slots were taken",
        BUDGET: f"{waited} for steps of at most {tokens} tokens",
        **{name: device_evidence(name, cost) for name in _WITHOUT_WAITS},
    }


_WITHOUT_WAITS = (COMPUTE, BANDWIDTH, FRONT_END, CLIENT)


def device_evidence(name: str, cost: StepCost) -> str:
    """Says what shows a limit at which no request waited."""
    if name == COMPUTE:
        each = duration(round(cost.prefill * NANOSECONDS))
        return (
            f"none waited, and prompt tokens took most of the steps' time, {each} each"
        )
    if name == BANDWIDTH:
        fixed, decode = (
            duration(round(each * NANOSECONDS)) for each in (cost.fixed, cost.decode)
        )
        return (
            "none waited, and most of the steps' time went to what each of them reads: "
            f"{fixed} a step and {decode} a request"
        )
    if name == FRONT_END:
        return "it had no request while the front end prepared some"
    return "it had no request, and the front end had none either"


def _most_held(explainer: Explainer) -> int:
    held = HeldBlocks(explainer.steps)
    sums = (sum(held.after(index).values()) for index in range(len(explainer.steps)))
    return max(sums, default=0)

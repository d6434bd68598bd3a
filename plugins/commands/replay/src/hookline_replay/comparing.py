"""Compares what an engine decided twice, and tells the first difference."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hookline_recording.recording import obstacle_name
from hookline_recording.schema import (
    Blocked,
    Events,
    Gated,
    Planned,
    Published,
    Record,
)

_STATE = (
    *("cause", "step", "running", "waiting", "waiting_tokens", "preempted"),
    *("kv_blocks_used", "kv_blocks_cached", "evicted_blocks", "sleep_level"),
)
_NAMES = {
    "kv_blocks_used": "KV blocks in use",
    "kv_blocks_cached": "KV blocks with a reusable prefix",
    "evicted_blocks": "evicted KV blocks",
    "waiting_tokens": "tokens of waiting requests",
    "running": "running requests",
    "waiting": "waiting requests",
    "preempted": "preempted requests",
    "sleep_level": "sleep level",
    "cause": "cause of the output",
    "step": "number of the step",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """The first decision that was another one.

    Attributes:
        step: The step; 0 before the first.
        request_id: The request; None if it is not about one.
        what: What was decided.
        recorded: Its value in the recording.
        replayed: Its value in the replay.
        why: What is known of the cause; may be empty.
    """

    step: int
    request_id: int | None
    what: str
    recorded: str
    replayed: str
    why: str = ""

    def __str__(self) -> str:
        of = "" if self.request_id is None else f", request {self.request_id}"
        why = f"\n  {self.why}" if self.why else ""
        return (
            f"step {self.step}{of}: {self.what}\n"
            f"  recorded: {self.recorded}\n  replayed: {self.replayed}{why}"
        )


@dataclass(frozen=True, slots=True)
class _Found:
    what: str
    recorded: object
    replayed: object
    request_id: int | None = None


class Comparison:
    """Compares decisions one turn after another.

    Attributes:
        step: Number of the last step that was planned in the recording.
        decisions: How many decisions were equal.
    """

    def __init__(self) -> None:
        self.step = self.decisions = 0
        self._ids: dict[bool, Sequence[int]] = {True: (), False: ()}

    def turn(
        self, recorded: Sequence[Record], replayed: Sequence[Record]
    ) -> Difference | None:
        """Compares the decisions from one output to the next.

        Returns:
            The first difference, or None.
        """
        for ours, theirs in zip(recorded, replayed, strict=False):
            if isinstance(ours, Planned):
                self.step = ours.step
            if (found := self._found(ours, theirs)) is not None:
                return self._difference(found, recorded, replayed)
            self.decisions += 1
        if len(recorded) == len(replayed):
            return None
        at = min(len(recorded), len(replayed))
        ours_next = recorded[at] if at < len(recorded) else None
        theirs_next = replayed[at] if at < len(replayed) else None
        found = _Found("what comes next", _told(ours_next), _told(theirs_next))
        return self._difference(found, recorded, replayed)

    def _found(self, recorded: Record, replayed: Record) -> _Found | None:
        match recorded, replayed:
            case Planned(), Planned():
                return self._in_plans(recorded, replayed)
            case Published(), Published():
                return next(_in_outputs(recorded, replayed), None)
            case Gated(), Gated():
                return _in_gates(recorded, replayed)
            case Blocked(), Blocked():
                found = (
                    obstacle_name(recorded.obstacle),
                    obstacle_name(replayed.obstacle),
                )
                if found[0] != found[1]:
                    return _Found("why nothing could be planned", *found)
                return None
            case _:
                return _Found("what comes next", _told(recorded), _told(replayed))

    def _in_plans(self, recorded: Planned, replayed: Planned) -> _Found | None:
        ids = self._with_ids(recorded, is_recorded=True)
        other_ids = self._with_ids(replayed, is_recorded=False)
        if ids != other_ids:
            return _of_sequence("requests of the plan", ids, other_ids)
        counts = recorded.num_tokens or [1] * len(ids)
        others = replayed.num_tokens or [1] * len(ids)
        for each, ours, theirs in zip(ids, counts, others, strict=True):
            if ours != theirs:
                return _Found("tokens to compute", ours, theirs, each)
        return next(_rest_of_plans(recorded, replayed), None)

    def _with_ids(self, plan: Planned, *, is_recorded: bool) -> Sequence[int]:
        if plan.request_ids is not None:
            self._ids[is_recorded] = plan.request_ids
        return self._ids[is_recorded]

    def _difference(
        self, found: _Found, recorded: Sequence[Record], replayed: Sequence[Record]
    ) -> Difference:
        ours, theirs = _circumstances(recorded), _circumstances(replayed)
        why = f"recorded: {ours}; replayed: {theirs}" if ours != theirs else ours
        return Difference(
            self.step,
            found.request_id,
            found.what,
            str(found.recorded),
            str(found.replayed),
            why,
        )


def _rest_of_plans(recorded: Planned, replayed: Planned) -> Iterator[_Found]:
    admitted: dict[int, object] = dict(recorded.admitted or ())
    other: dict[int, object] = dict(replayed.admitted or ())
    yield from _of_mapping("cached tokens at admission", admitted, other)
    yield from _of_mapping(
        "new KV blocks", _lists(recorded.new_blocks), _lists(replayed.new_blocks)
    )
    yield from _of_mapping("drafts", _counts(recorded.drafts), _counts(replayed.drafts))
    ours, theirs = list(recorded.released or ()), list(replayed.released or ())
    if ours != theirs:
        yield _of_sequence("requests that left the batch", ours, theirs)
    ours_why, theirs_why = map(obstacle_name, (recorded.obstacle, replayed.obstacle))
    if ours_why != theirs_why:
        yield _Found("why no more were admitted", ours_why, theirs_why)
    for name in ("step", "context_tokens", "attention_pairs", "prefill_tokens"):
        if (first := getattr(recorded, name)) != (second := getattr(replayed, name)):
            yield _Found(name.replace("_", " "), first, second)


def _in_outputs(recorded: Published, replayed: Published) -> Iterator[_Found]:
    ours, theirs = recorded.events or Events(), replayed.events or Events()
    yield from _of_mapping(
        "preemption",
        {each.request_id: _preemption(each) for each in ours.preempted},
        {each.request_id: _preemption(each) for each in theirs.preempted},
    )
    yield from _of_mapping(
        "hit in the prefix cache",
        {each.request_id: _hit(each) for each in ours.scheduled},
        {each.request_id: _hit(each) for each in theirs.scheduled},
    )
    yield from _of_mapping(
        "end",
        {each.request_id: _end(each) for each in ours.finished},
        {each.request_id: _end(each) for each in theirs.finished},
    )
    queued = [each.request_id for each in ours.queued]
    others = [each.request_id for each in theirs.queued]
    if queued != others:
        yield _of_sequence("queued requests", queued, others)
    held, other_held = recorded.held or {}, replayed.held or {}
    if held != other_held:
        yield _Found("requests at gates", held, other_held)
    for name in _STATE:
        if (first := getattr(recorded, name)) != (second := getattr(replayed, name)):
            yield _Found(_NAMES[name], first, second)


def _in_gates(recorded: Gated, replayed: Gated) -> _Found | None:
    if (recorded.request_id, recorded.gate) == (replayed.request_id, replayed.gate):
        return None
    return _Found("gate", _told(recorded), _told(replayed), recorded.request_id)


def _preemption(event: object) -> str:
    """Describes a `schema.Preempted`."""
    cause, by = getattr(event, "cause", ""), getattr(event, "beneficiary_id", None)
    tokens = f"{getattr(event, 'computed_tokens', 0)} tokens were computed"
    return f"{cause} for request {by}, {tokens}" if by else f"{cause}, {tokens}"


def _hit(event: object) -> str:
    """Describes a `schema.Scheduled`."""
    names = ("local_cached_tokens", "external_cached_tokens", "recomputed_tokens")
    found = [f"{getattr(event, name)} {name.replace('_', ' ')}" for name in names]
    return ", ".join(found)


def _end(event: object) -> str:
    """Describes a `schema.Finished`."""
    kind, tokens = getattr(event, "kind", ""), getattr(event, "output_tokens", 0)
    return f"{kind} after {tokens} tokens"


def _of_mapping(
    what: str, recorded: dict[int, object], replayed: dict[int, object]
) -> Iterator[_Found]:
    if recorded == replayed:
        return
    for each in [*recorded, *(one for one in replayed if one not in recorded)]:
        ours, theirs = recorded.get(each, "none"), replayed.get(each, "none")
        if ours != theirs:
            yield _Found(what, ours, theirs, each)


def _of_sequence(what: str, ours: Sequence[int], theirs: Sequence[int]) -> _Found:
    odd = [each for each in (*ours, *theirs) if (each in ours) != (each in theirs)]
    found = odd[0] if odd else None
    return _Found(what, list(ours), list(theirs), found)


def _lists(blocks: dict[int, list[int]] | None) -> dict[int, object]:
    return {each: list(own) for each, own in (blocks or {}).items()}


def _counts(drafts: dict[int, int | list[int]] | None) -> dict[int, object]:
    return {
        each: given if isinstance(given, int) else len(given)
        for each, given in (drafts or {}).items()
    }


def _told(record: Record | None) -> str:
    match record:
        case None:
            return "nothing"
        case Planned():
            return f"step {record.step} is planned"
        case Blocked():
            return f"nothing can be planned: {obstacle_name(record.obstacle)}"
        case Gated():
            name = record.gate or "none any more"
            return f"request {record.request_id} waits for {name}"
        case Published():
            return f"an output ({record.cause})"
        case _:
            return type(record).__name__


def _circumstances(records: Sequence[Record]) -> str:
    """Tells what limits the decisions of a turn."""
    told = []
    for record in records:
        if isinstance(record, Planned | Blocked) and record.obstacle:
            told.append(f"stopped by {obstacle_name(record.obstacle)}")
        if isinstance(record, Published):
            told.append(
                f"{record.running} running, {record.waiting} waiting, "
                f"{record.kv_blocks_used} KV blocks in use"
            )
    return ", ".join(told)

"""The weights of one digest: where they are, and which requests need them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hookline.request import Request, RequestStatus
from hookline_lora.adapter import AdapterRef
from hookline_metrics.adapters import AdapterLevel


@dataclass(frozen=True, slots=True)
class Wait:
    """A request that waits at the gate.

    Attributes:
        request: The request.
        since: When its wait began, ns.
    """

    request: Request
    since: int


@dataclass(slots=True, eq=False)
class Ticket:
    """A loading that is not committed yet.

    Attributes:
        ref: The adapter.
        since: When it began, ns.
        is_ready: Whether the weights have been in main memory since. They may leave it
            again before the loading is committed, so that none keeps others waiting.
    """

    ref: AdapterRef
    since: int
    is_ready: bool = False


@dataclass(slots=True, eq=False)
class Weights:
    """What names of the same content share, and their requests.

    Attributes:
        digest: What identifies them.
        refs: Adapters with this content, by name; the latest one's path is read.
        tickets: Loadings that are not committed yet.
        active: Requests that have passed the gate, by id.
        waiting: Requests that wait at the gate, by id, in the order of their waits.
        is_resident: Whether they are in main memory, or are being read into it.
        is_loading: Whether they are being read.
        slot: Their slot, perhaps reserved while they are read; None without one.
        last_used: When a request last ended or began, ns.
        granted_at: When they last came into a slot, ns.
        load_started_at: When they were last begun to be read, ns; None if never.
        loaded_at: When that ended, ns; None while it has not.
        holder: Name of an adapter whose slot they wait for; empty if they do not.
        last_holder: The last one that was not empty.
        former: An adapter that they have been of, for when they are of none.
    """

    digest: str
    refs: dict[str, AdapterRef] = field(default_factory=dict)
    tickets: dict[str, Ticket] = field(default_factory=dict)
    active: dict[int, Request] = field(default_factory=dict)
    waiting: dict[int, Wait] = field(default_factory=dict)
    is_resident: bool = False
    is_loading: bool = False
    slot: int | None = None
    last_used: int = 0
    granted_at: int = 0
    load_started_at: int | None = None
    loaded_at: int | None = None
    holder: str = ""
    last_holder: str = ""
    former: AdapterRef | None = None

    @property
    def ref(self) -> AdapterRef:
        """The adapter that was added last, if there still is one."""
        if self.refs:
            return next(reversed(self.refs.values()))
        if self.tickets:
            return next(reversed(self.tickets.values())).ref
        assert self.former is not None, "weights are made for an adapter"
        return self.former

    @property
    def is_pinned(self) -> bool:
        """Whether an adapter of theirs is pinned."""
        return any(ref.is_pinned for ref in self.refs.values())

    @property
    def is_loaded(self) -> bool:
        """Whether they are in main memory."""
        return self.is_resident and not self.is_loading

    @property
    def is_ready(self) -> bool:
        """Whether steps can compute with them."""
        return self.slot is not None and self.is_loaded

    @property
    def is_wanted(self) -> bool:
        """Whether requests or loadings wait for them."""
        return bool(self.waiting or self.has_loadings)

    @property
    def has_loadings(self) -> bool:
        """Whether loadings wait until they have been in main memory."""
        return not all(ticket.is_ready for ticket in self.tickets.values())

    @property
    def level(self) -> AdapterLevel:
        if self.is_ready:
            return AdapterLevel.SLOT
        return AdapterLevel.MEMORY if self.is_loaded else AdapterLevel.DISK

    @property
    def oldest(self) -> int:
        """Time when the oldest request or loading came that waits for them, ns."""
        waiting = (wait.request.queued_at for wait in self.waiting.values())
        tickets = self.tickets.values()
        loadings = (ticket.since for ticket in tickets if not ticket.is_ready)
        return min((*waiting, *loadings))

    @property
    def first_came(self) -> int:
        """Time when the oldest live request came, ns; there must be one."""
        return min(request.queued_at for request in self.requests())

    def wait_for(self, holder: "Weights") -> None:
        """Notes whose place they wait for."""
        self.holder = self.last_holder = holder.ref.name

    def requests(self) -> Iterable[Request]:
        """Yields the live requests."""
        yield from self.active.values()
        for wait in self.waiting.values():
            yield wait.request

    def is_idle(self) -> bool:
        """Whether they have no live requests."""
        return not (self.active or self.waiting)

    def protected(self, until: int) -> list[Request]:
        """Returns the requests for which they must keep their slot.

        Args:
            until: Requests that came by then, ns, are served first; so are those that
                have been in the batch, whose tokens are to come from the same weights.
        """
        return [
            request
            for request in self.requests()
            if has_started(request) or request.queued_at <= until
        ]


def has_started(request: Request) -> bool:
    """Returns whether a request has been in the batch."""
    return request.num_cached_tokens is not None


def remaining_tokens(request: Request) -> int:
    """Returns how many more tokens a request computes at most, drafts left out."""
    return request.num_missing_tokens + request.max_tokens - request.num_output_tokens


def requests_of(weights: Weights, name: str) -> Iterable[Request]:
    """Yields the live requests of weights that use one of their names."""
    return (each for each in weights.requests() if each.facts.lora == name)


def is_in_batch(request: Request) -> bool:
    """Returns whether steps compute a request now."""
    return request.status is RequestStatus.RUNNING

"""The adapters of an engine: by name, and their weights by digest."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from hookline.clock import NANOSECONDS
from hookline_lora.adapter import AdapterRef, AdapterUse
from hookline_lora.messages import AdapterState, LoadingState
from hookline_lora.scheduler.weights import Ticket, Weights, is_in_batch, requests_of

MOST_FORMER = 4096
"""Number of adapters that are remembered after they have been removed or replaced."""

LOADING_NS = 900 * NANOSECONDS
"""Age, ns, at which a loading is given up that nobody commits or abandons."""

Key = tuple[str, str]
"""Name and digest."""


@dataclass(slots=True, eq=False)
class Loading:
    """A loading that has not been committed.

    Attributes:
        name: Name that requests will use.
        since: When it began, ns; None until that is known.
        weights: What was described; None before, and if that failed.
        error: Why it failed; empty if it has not.
    """

    name: str
    since: int | None = None
    weights: Weights | None = None
    error: str = ""

    def state(self, ticket: str) -> LoadingState:
        """Returns how it goes."""
        if self.error:
            return LoadingState(error=self.error)
        if self.weights is None:
            return LoadingState()
        found = self.weights.tickets[ticket]
        return LoadingState(ref=found.ref, is_ready=found.is_ready)


class Registry:
    """Which adapters requests may use, and which still compute earlier ones.

    Attributes:
        version: Changes with every change of the adapters.
        refs: Adapters by name.
        weights: Weights by digest, of adapters, loadings and requests.
        loadings: Loadings that have not been committed, by ticket.
        orphans: Those of `weights` that have no name and no loading, by digest.
    """

    def __init__(self) -> None:
        self.version = 0
        self.refs: dict[str, AdapterRef] = {}
        self.weights: dict[str, Weights] = {}
        self.loadings: dict[str, Loading] = {}
        self.orphans: dict[str, Weights] = {}
        self._leaving: dict[Key, AdapterRef] = {}
        self._former: OrderedDict[Key, None] = OrderedDict()

    # -- adapters ----------------------------------------------------------------

    def add(self, ref: AdapterRef) -> None:
        """Gives a name to weights; others that had it keep their requests only."""
        self.version += 1
        former = self.refs.get(ref.name)
        weights = self._weights(ref)
        weights.refs.pop(ref.name, None)
        weights.refs[ref.name] = self.refs[ref.name] = ref
        self._former.pop((ref.name, ref.digest), None)
        self._leaving.pop((ref.name, ref.digest), None)
        if former is not None and former.digest != ref.digest:
            self._take_name(former)

    def remove(self, name: str) -> Weights:
        """Has no new request use a name that is known; returns its weights."""
        self.version += 1
        ref = self.refs.pop(name)
        weights = self._take_name(ref)
        if any(requests_of(weights, name)):
            self._leaving[name, ref.digest] = ref
        return weights

    def replace(self, ref: AdapterRef) -> None:
        """Replaces what is told of an adapter whose weights stay the same."""
        self.version += 1
        self.refs[ref.name] = self.weights[ref.digest].refs[ref.name] = ref

    def _take_name(self, ref: AdapterRef) -> Weights:
        self._former[ref.name, ref.digest] = None
        if len(self._former) > MOST_FORMER:
            self._former.popitem(last=False)
        weights = self.weights[ref.digest]
        weights.former = weights.refs.pop(ref.name)
        self._note(weights)
        return weights

    def is_former(self, use: AdapterUse) -> bool:
        """Whether an adapter was there and has been removed or replaced."""
        return (use.name, use.digest) in self._former

    # -- loadings ----------------------------------------------------------------

    def described(self, ticket: str, ref: AdapterRef) -> None:
        """Notes what a loading has found, unless it has been abandoned."""
        if (loading := self.loadings.get(ticket)) is None:
            return
        weights = loading.weights = self._weights(ref)
        since = loading.since or 0
        weights.tickets[ticket] = Ticket(ref, since, is_ready=weights.is_loaded)

    def forget_loading(self, ticket: str) -> None:
        """Forgets a loading; its weights stay if anything else needs them."""
        loading = self.loadings.pop(ticket, None)
        if loading is not None and loading.weights is not None:
            loading.weights.former = loading.weights.tickets.pop(ticket).ref
            self._note(loading.weights)

    def age_loadings(self, now: int) -> None:
        """Notes when loadings began; gives those up that nobody has ended for long."""
        for ticket, loading in list(self.loadings.items()):
            if loading.since is None:
                loading.since = now
            elif now - loading.since > LOADING_NS:
                self.forget_loading(ticket)

    def is_loading(self, name: str) -> bool:
        """Whether a loading may soon be committed under a name."""
        loadings = self.loadings.values()
        return any(each.name == name and not each.error for each in loadings)

    def wanted_by_loadings(self) -> Iterator[Weights]:
        """Yields the weights that loadings wait for."""
        for loading in self.loadings.values():
            if loading.weights is not None and loading.weights.has_loadings:
                yield loading.weights

    def fail_loadings(self, weights: Weights, error: str) -> None:
        """Notes that weights could not be read that loadings wait for."""
        waiting = [key for key, each in weights.tickets.items() if not each.is_ready]
        for ticket in waiting:
            loading = self.loadings[ticket]
            weights.former = weights.tickets.pop(ticket).ref
            loading.weights, loading.error = None, error
            self._note(weights)

    # -- weights -----------------------------------------------------------------

    def _weights(self, ref: AdapterRef) -> Weights:
        if (weights := self.weights.get(ref.digest)) is None:
            weights = self.weights[ref.digest] = Weights(ref.digest, former=ref)
        self.orphans.pop(ref.digest, None)
        return weights

    def _note(self, weights: Weights) -> None:
        """Notes that weights have lost a name or a loading."""
        if not (weights.refs or weights.tickets):
            self.orphans[weights.digest] = weights

    def forget(self, weights: Weights) -> None:
        """Forgets weights that nothing needs any more."""
        del self.weights[weights.digest], self.orphans[weights.digest]

    # -- listing -----------------------------------------------------------------

    def adapters(self) -> dict[str, AdapterState]:
        """Returns the adapters by name; of a name, the one that requests may use."""
        for key in [key for key in self._leaving if not self._has_requests(key)]:
            del self._leaving[key]
        leaving = {name: ref for (name, _), ref in self._leaving.items()}
        states = {
            name: self._state(ref, is_leaving=True) for name, ref in leaving.items()
        }
        for ref in self.refs.values():
            states[ref.name] = self._state(ref)
        return states

    def _has_requests(self, key: Key) -> bool:
        weights = self.weights.get(key[1])
        return weights is not None and any(requests_of(weights, key[0]))

    def _state(self, ref: AdapterRef, *, is_leaving: bool = False) -> AdapterState:
        weights = self.weights[ref.digest]
        running = waiting = 0
        for request in requests_of(weights, ref.name):
            is_running = is_in_batch(request)
            running += is_running
            waiting += not is_running
        return AdapterState(
            ref=ref,
            level=weights.level,
            running=running,
            waiting=waiting,
            is_leaving=is_leaving,
        )

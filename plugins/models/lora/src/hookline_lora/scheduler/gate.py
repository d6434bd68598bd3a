"""The readiness gate of requests whose adapter is not in a slot."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from hookline.engine.scheduler.readiness import Readiness
from hookline.finish_cause import Failed, FinishCause, Rejected
from hookline.request import Request
from hookline_lora.adapter import UNKNOWN, USE, AdapterRef, AdapterUse
from hookline_lora.scheduler.accounting import Account, name_of
from hookline_lora.scheduler.placing import Placing
from hookline_lora.scheduler.registry import Registry
from hookline_lora.scheduler.weights import Wait, Weights
from hookline_metrics.adapters import ADAPTER_GATE, LORA


class AdapterGate:
    """A `ReadinessGate`: open for requests whose adapter a step can compute with.

    Attributes:
        is_pending: Never: there is nothing to take without a request that waits.
        now: Time of the step that is planned, ns.
        claims: Weights for which requests wait, by digest; the side takes out those
            that have got what they wait for, and adds those of loadings.
        is_changed: Whether places may have to be given anew.
        is_news: Whether requests have come, gone or moved.
    """

    name = ADAPTER_GATE
    param = None
    timeout_ns = None
    is_pending = False

    def __init__(
        self,
        registry: Registry,
        placing: Placing,
        account: Account,
        read: Callable[[AdapterUse], bool],
    ) -> None:
        """Begins without requests.

        Args:
            registry: The adapters.
            placing: Gives them slots.
            account: Is told of waits.
            read: Has an adapter read that the engine does not know; False if too many
                are being read.
        """
        self._registry = registry
        self._placing = placing
        self._account = account
        self._read = read
        self._weights: dict[int, Weights] = {}
        self._unread: dict[str, dict[int, Request]] = {}
        self._replaced: dict[int, tuple[Request, Weights, str]] = {}
        self._ended: list[Readiness] = []
        self.now = 0
        self.claims: dict[str, Weights] = {}
        self.is_changed = self.is_news = False

    @property
    def has_requests(self) -> bool:
        """Whether requests with adapters are live."""
        return bool(self._weights)

    # -- a ReadinessGate ---------------------------------------------------------

    def is_open(self, request: Request) -> bool:
        """Returns whether a request's adapter has a slot; claims one if not."""
        if request.inner.adapter is None:
            return True
        weights = self._weights.get(request.request_id)
        if weights is None and (weights := self._arrive(request)) is None:
            return False
        if self._placing.admits(weights, request):
            if request.request_id not in weights.active:
                self._pass(weights, request)
            return True
        if request.request_id not in weights.waiting:
            weights.active.pop(request.request_id, None)
            self._wait(request, weights)
        return False

    def take_ready(self) -> Sequence[Readiness]:
        """Returns requests whose adapter has got a slot, or cannot be had."""
        found, self._ended = self._ended, []
        for weights in self.claims.values():
            if not weights.is_ready:
                continue
            for wait in list(weights.waiting.values()):
                if self._placing.admits(weights, wait.request):
                    self._pass(weights, wait.request)
                    found.append(Readiness(wait.request))
        return found

    def cancel(self, request: Request) -> None:
        """Forgets nothing yet: `forget` is called for every request that ends."""

    def close(self) -> None:
        """There is nothing to end."""

    # -- requests ----------------------------------------------------------------

    def forget(self, request: Request) -> Weights | None:
        """Forgets a request that ends; returns the weights that it needed."""
        request_id = request.request_id
        self._replaced.pop(request_id, None)
        weights = self._weights.pop(request_id, None)
        if weights is None:
            for waiting in self._unread.values():
                waiting.pop(request_id, None)
            return None
        weights.active.pop(request_id, None)
        weights.waiting.pop(request_id, None)
        self.is_changed = self.is_news = True
        return weights

    def read(self, digest: str, ref: AdapterRef | None, error: str) -> None:
        """Lets requests go on whose adapter the engine did not know.

        Args:
            digest: The one that they ask for.
            ref: What has been found where they say; None if nothing that can be served.
            error: Why not.
        """
        requests = self._unread.pop(digest, {})
        if ref is not None and ref.digest != digest:
            ref, error = None, "its files have changed since"
        if ref is not None and requests:
            self._registry.add(ref)
        for request in requests.values():
            if ref is None:
                self._end(request, Failed(f"adapter {name_of(request)!r}: {error}"))
            else:
                self._wait(request, self._registry.weights[digest])

    def load_failed(self, weights: Weights, reason: str) -> None:
        """Ends the requests that wait for weights that could not be read.

        If the adapter has been loaded anew meanwhile, or is being loaded, its files are
        those of the new one, which computes them instead.
        """
        for wait in list(weights.waiting.values()):
            del weights.waiting[wait.request.request_id]
            self._replaced[wait.request.request_id] = wait.request, weights, reason
        self.settle_replaced()

    def settle_replaced(self) -> None:
        """Lets requests go on whose adapter has been replaced, or will not be."""
        for request_id, (request, weights, reason) in list(self._replaced.items()):
            name = name_of(request)
            ref = self._registry.refs.get(name)
            # Blocks that were looked up by their hashes are those of the old weights.
            is_new = ref is not None and ref.digest != weights.digest
            if is_new and ref is not None and not request.block_hashes:
                self._wait(request, self._switch(request, ref))
            elif is_new or not self._registry.is_loading(name):
                self._end(request, Failed(f"adapter {name!r}: {reason}"))
            else:
                continue
            del self._replaced[request_id]

    def _arrive(self, request: Request) -> Weights | None:
        """Returns the weights of a new request; None if they are not known yet."""
        use = USE.read(request.sections) or AdapterUse(
            request.inner.adapter or "", name_of(request), ""
        )
        registry = self._registry
        ref, weights = registry.refs.get(use.name), registry.weights.get(use.digest)
        if registry.is_former(use):
            if ref is None:
                message = f"adapter {use.name!r} has been unloaded"
                self._end(request, Rejected(kind=UNKNOWN, message=message))
                return None
            weights = self._switch(request, ref)
        elif weights is not None and use.name not in weights.refs:
            known = weights.ref
            registry.add(replace(known, name=use.name, is_pinned=False))
        elif weights is None:
            self._ask(request, use)
            return None
        self._weights[request.request_id] = weights
        return weights

    def _ask(self, request: Request, use: AdapterUse) -> None:
        """Has the adapter of a request read that is not known."""
        if use.digest not in self._unread:
            if not use.path or not self._read(use):
                reason = "too many are being loaded" if use.path else "is not known"
                self._end(request, Failed(f"adapter {use.name!r}: {reason}"))
                return
            self._unread[use.digest] = {}
        self._unread[use.digest][request.request_id] = request

    def _switch(self, request: Request, ref: AdapterRef) -> Weights:
        """Gives a request without hashes what its adapter's name means now."""
        request.inner = replace(request.inner, adapter=ref.digest)
        use = AdapterUse(ref.digest, ref.name, ref.path)
        request.sections = {**request.sections, LORA: use}
        return self._registry.weights[ref.digest]

    def _wait(self, request: Request, weights: Weights) -> None:
        """Has a request that is held here wait for weights."""
        self._weights[request.request_id] = weights
        since = max(self.now, request.queued_at)
        weights.waiting[request.request_id] = Wait(request, since)
        self.claims[weights.digest] = weights
        self.is_changed = self.is_news = True

    def _pass(self, weights: Weights, request: Request) -> None:
        wait = weights.waiting.pop(request.request_id, None)
        if wait is not None:
            self._account.waited(weights, wait, self.now)
        self.is_news = True
        weights.active[request.request_id] = request

    def _end(self, request: Request, cause: FinishCause) -> None:
        self._ended.append(Readiness(request, cause))

"""Carries out what front ends command."""

import uuid

import msgspec

from hookline.engine.scheduler.extension_port import SchedulerPort
from hookline.finish_cause import Aborted
from hookline_lora.adapter import AdapterRef
from hookline_lora.config import AdapterSource
from hookline_lora.messages import (
    AbandonAdapter,
    CommitAdapter,
    ListAdapters,
    LoraAnswer,
    LoraCommand,
    PinAdapter,
    PrepareAdapter,
    UnloadAdapter,
    UnloadMode,
)
from hookline_lora.scheduler.describing import Described, Describing
from hookline_lora.scheduler.registry import Loading, Registry
from hookline_lora.scheduler.residency import Residency
from hookline_lora.scheduler.weights import requests_of

MOST_LOADINGS = 64
"""Number of loadings that may be under way, those that have failed included."""
ABORTED_BY = "adapter_unloaded"
"""What requests are aborted by whose adapter is unloaded."""
_TICKET = "ticket "


class Commands:
    """Carries out commands. None of them blocks, and each is answered at once."""

    def __init__(
        self,
        registry: Registry,
        residency: Residency,
        describing: Describing,
        port: SchedulerPort,
    ) -> None:
        """Keeps what commands change.

        Args:
            registry: The adapters.
            residency: Where their weights are.
            describing: Reads their files.
            port: Ends requests.
        """
        self._registry = registry
        self._residency = residency
        self._describing = describing
        self._port = port
        self._boot = uuid.uuid4().hex

    def run(self, section: object, now: int) -> LoraAnswer:
        """Carries out a command, which may have come from another process.

        Args:
            section: The command.
            now: Time of the last step, ns.
        """
        try:
            command = _typed(section)
        except msgspec.ValidationError as invalid:
            return LoraAnswer(error=f"no command of adapters: {invalid}")
        match command:
            case PrepareAdapter():
                error = self._prepare(command)
            case CommitAdapter():
                error = self._commit(command.ticket)
            case AbandonAdapter():
                self._registry.forget_loading(command.ticket)
                error = None
            case UnloadAdapter():
                error = self._unload(command, now)
            case PinAdapter():
                error = self._pin(command, now)
            case ListAdapters():
                error = None
        return self._answer(command, error)

    def _answer(self, command: LoraCommand, error: str | None) -> LoraAnswer:
        registry = self._registry
        known = command.known if isinstance(command, ListAdapters) else {}
        is_known = known.get(self._boot) == registry.version
        return LoraAnswer(
            error=error,
            boot=self._boot,
            version=registry.version,
            adapters={} if is_known else registry.adapters(),
            loading={
                ticket: loading.state(ticket)
                for ticket, loading in registry.loadings.items()
            },
        )

    def take_described(self, described: Described) -> bool:
        """Takes what the files of a loading are; False if it is of no loading."""
        if not described.key.startswith(_TICKET):
            return False
        ticket = described.key.removeprefix(_TICKET)
        if described.ref is not None:
            self._registry.described(ticket, described.ref)
        elif (loading := self._registry.loadings.get(ticket)) is not None:
            loading.error = described.error
        return True

    # -- commands: each returns why it is refused, or None -----------------------

    def _prepare(self, command: PrepareAdapter) -> str | None:
        loadings, ticket = self._registry.loadings, command.ticket
        if ticket in loadings:
            return None
        if command.is_pinned and (refusal := self._pin_obstacle()):
            return refusal
        source = AdapterSource(
            name=command.name,
            path=command.path,
            base_model_name=command.base_model_name,
            is_pinned=command.is_pinned,
        )
        is_full = len(loadings) >= MOST_LOADINGS
        if is_full or not self._describing.ask(_TICKET + ticket, source):
            return "too many adapters are being loaded"
        loadings[ticket] = Loading(command.name)
        return None

    def _commit(self, ticket: str) -> str | None:
        registry = self._registry
        if (loading := registry.loadings.get(ticket)) is None:
            return "this loading is not known, or has been abandoned"
        state = loading.state(ticket)
        if state.ref is None or not state.is_ready:
            return loading.error or "the adapter is still being loaded"
        registry.add(state.ref)
        registry.forget_loading(ticket)
        return None

    def _unload(self, command: UnloadAdapter, now: int) -> str | None:
        name = command.name
        if name not in self._registry.refs:
            return f"there is no adapter {name[:64]!r}"
        weights = self._registry.remove(name)
        if command.mode is UnloadMode.ABORT:
            for request in list(requests_of(weights, name)):
                at = max(now, request.queued_at)
                self._port.finish(request, Aborted(ABORTED_BY), at)
        return None

    def _pin(self, command: PinAdapter, now: int) -> str | None:
        if (ref := self._registry.refs.get(command.name)) is None:
            return f"there is no adapter {command.name[:64]!r}"
        is_pinned = command.is_pinned
        if is_pinned and not ref.is_pinned and (refusal := self._pin_obstacle()):
            return refusal
        pinned: AdapterRef = msgspec.structs.replace(ref, is_pinned=is_pinned)
        self._registry.replace(pinned)
        if is_pinned:
            self._residency.preload(self._registry.weights[ref.digest], now)
        return None

    def _pin_obstacle(self) -> str | None:
        """Returns why no further adapter can be pinned; None if one can."""
        capacity = self._residency.capacity
        pinned = sum(ref.is_pinned for ref in self._registry.refs.values())
        if capacity.can_pin(pinned + 1):
            return None
        return (
            f"{pinned} adapters are pinned, and main memory has room for "
            f"{capacity.most}: one place is for those that are not"
        )


def _typed(section: object) -> LoraCommand:
    if isinstance(section, LoraCommand):
        return section
    command: LoraCommand = msgspec.convert(section, LoraCommand)
    return command

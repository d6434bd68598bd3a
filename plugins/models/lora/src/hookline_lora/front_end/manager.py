"""Loads and unloads adapters while engines serve: in all of them, or in none.

Loading has two phases. Every engine reads and checks the files; once all have them,
requests may use the adapter. An engine that has been started or joined since then reads
an adapter when the first request needs it, and is told of it when a front end sees it.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from hookline.exceptions import HooklineError, RequestError
from hookline_lora.adapter import AdapterRef
from hookline_lora.facts import KnownAdapters, LoraFacts
from hookline_lora.front_end.engines import KnownEngines, tell
from hookline_lora.front_end.listing import served
from hookline_lora.front_end.resolving import folder_of_client, resolve
from hookline_lora.messages import (
    AbandonAdapter,
    CommitAdapter,
    ListAdapters,
    LoraAnswer,
    PinAdapter,
    PrepareAdapter,
    UnloadAdapter,
    UnloadMode,
)
from hookline_server.adapters import AdapterToLoad, Ask, ServedAdapter
from hookline_server.api_error import ApiError

T = TypeVar("T")
LOAD_SECONDS = 600.0
"""Longest time for a loading; then it is abandoned everywhere."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5
"""Seconds between two questions about something that is under way."""
_FRESH_SECONDS = 1.0
"""How old a front end's knowledge of names may be; another server may change them."""
_UNKNOWN_SECONDS = 0.2
"""The same for a name that it does not know."""
_log = logging.getLogger(__name__)


class LoraManager:
    """Implements `AdapterManager` for Hookline's engines; for one event loop."""

    def __init__(self, facts: LoraFacts) -> None:
        """Keeps the facts, whose known adapters it replaces."""
        self._facts = facts
        self._engines = KnownEngines()
        self._changing = asyncio.Lock()
        self._own: dict[str, AdapterRef] = {}
        self._of_start = frozenset(facts.known.refs)
        # By name: the engines that were told, which list it again only if it is loaded
        # again. Only what engines load at their start needs to be known.
        self._gone: dict[str, set[str]] = {}
        self._finding: dict[str, asyncio.Task[bool]] = {}
        self._refreshing: asyncio.Task[None] | None = None

    # -- names -------------------------------------------------------------------

    async def find(self, ask: Ask, name: str) -> bool:
        """Implements `AdapterManager`; a folder of this name may be loaded."""
        if name in self._facts.known.refs:
            if self._engines.is_older(_FRESH_SECONDS) and self._refreshing is None:
                self._refreshing = asyncio.create_task(self._refresh_aside(ask))
            return True
        if self._engines.is_older(_UNKNOWN_SECONDS):
            await self._refresh(ask)
            if name in self._facts.known.refs:
                return True
        return await self._once(name, lambda: self._load_found(ask, name))

    async def _once(self, name: str, find: Callable[[], Awaitable[bool]]) -> bool:
        """Looks for a name once, for all requests that ask for it meanwhile."""
        if (task := self._finding.get(name)) is None:

            async def run() -> bool:
                try:
                    return await find()
                finally:
                    del self._finding[name]

            task = self._finding[name] = asyncio.create_task(run())
        return await asyncio.shield(task)

    async def _load_found(self, ask: Ask, name: str) -> bool:
        path = await asyncio.to_thread(resolve, name, self._facts.directory)
        if path is None:
            return False
        async with self._changing:
            if name not in self._facts.known.refs:
                await self._load(ask, AdapterToLoad(name=name, path=path))
        return True

    def path_of(self, name: str) -> str:
        """Implements `AdapterManager`."""
        ref = self._facts.known.refs.get(name)
        return "" if ref is None else ref.path

    def parent_of(self, name: str) -> str | None:
        """Implements `AdapterManager`."""
        ref = self._facts.known.refs.get(name)
        return None if ref is None else ref.base_model_name

    # -- changes -----------------------------------------------------------------

    async def load(
        self, ask: Ask, adapter: AdapterToLoad, taken: Sequence[str]
    ) -> None:
        """Implements `AdapterManager`."""
        if adapter.name in taken:
            raise _refused(
                f"{adapter.name!r} is the name of the base model", "lora_name"
            )
        async with self._changing:
            await self._refresh(ask)
            known = self._facts.known.refs
            if adapter.name in known and not adapter.replaces:
                raise _refused(
                    f"an adapter {adapter.name!r} is loaded already: unload it, or set "
                    "load_inplace to true",
                    "lora_name",
                )
            path = folder_of_client(adapter.path, self._facts.directory, known.values())
            await self._load(ask, msgspec.structs.replace(adapter, path=path))

    async def load_own(self, ask: Ask, name: str, path: str) -> None:
        """Loads an adapter from any folder, for a script in this process.

        Raises:
            RequestError: It cannot be loaded.
        """
        try:
            await self._load(ask, AdapterToLoad(name=name, path=path))
        except ApiError as error:
            raise RequestError(str(error), param="lora_request") from error

    async def _load(self, ask: Ask, adapter: AdapterToLoad) -> None:
        """Loads in every engine, or in none, and remembers it for engines to come.

        Raises:
            ApiError: One cannot, or not in time.
        """
        self._own[adapter.name] = await self._load_everywhere(ask, adapter)
        self._gone.pop(adapter.name, None)
        await self._refresh(ask)

    async def _load_everywhere(self, ask: Ask, adapter: AdapterToLoad) -> AdapterRef:
        """Loads in every engine; in none if one cannot.

        Raises:
            ApiError: One cannot, or not in time.
        """
        ticket, is_done = uuid.uuid4().hex, False
        prepare = PrepareAdapter(
            ticket=ticket,
            name=adapter.name,
            path=adapter.path,
            base_model_name=adapter.base_model_name,
            is_pinned=adapter.is_pinned,
        )
        try:
            _raise_error(await tell(ask, prepare))
            ref = await self._prepared(ask, ticket)
            _raise_error(await tell(ask, CommitAdapter(ticket)))
            is_done = True
        finally:
            if not is_done:
                await asyncio.shield(_abandon(ask, ticket))
        return ref

    async def _prepared(self, ask: Ask, ticket: str) -> AdapterRef:
        """Returns what all engines have read."""

        def read(answers: Sequence[LoraAnswer]) -> AdapterRef | None:
            states = [each.loading.get(ticket) for each in answers]
            for state in states:
                if state is not None and state.error is not None:
                    raise _refused(state.error, "lora_path")
            refs = [each.ref for each in states if each is not None and each.is_ready]
            if not states or len(refs) < len(states) or refs[0] is None:
                return None
            if len({ref.digest for ref in refs if ref is not None}) > 1:
                raise _refused("engines have read different files", "lora_path")
            return refs[0]

        try:
            async with asyncio.timeout(LOAD_SECONDS):
                return await _until(ask, read, ListAdapters(self._engines.versions))
        except TimeoutError:
            message = f"the adapter was not loaded within {LOAD_SECONDS:g} s"
            raise ApiError(504, message, code="adapter_timeout") from None

    async def unload(self, ask: Ask, name: str, *, aborts: bool) -> None:
        """Implements `AdapterManager`."""
        async with self._changing:
            await self._refresh(ask)
            if name not in self._facts.known.refs:
                raise _unknown(name)
            self._own.pop(name, None)
            mode = UnloadMode.ABORT if aborts else UnloadMode.WAIT
            await tell(ask, UnloadAdapter(name, mode))
            if name in self._of_start:
                self._gone[name] = set(self._engines.answers)
            await self._refresh(ask)

        def is_gone(answers: Sequence[LoraAnswer]) -> bool | None:
            left = [each.adapters[name] for each in answers if name in each.adapters]
            return None if any(each.is_leaving for each in left) else True

        await _until(ask, is_gone, ListAdapters())

    async def pin(self, ask: Ask, name: str, *, is_pinned: bool) -> None:
        """Implements `AdapterManager`."""
        async with self._changing:
            answers = await tell(ask, PinAdapter(name, is_pinned))
            if all(each.error is not None for each in answers):
                await self._refresh(ask)
                if name not in self._facts.known.refs:
                    raise _unknown(name)
                _raise_error(answers)
            await self._refresh(ask)

    async def served(self, ask: Ask) -> Sequence[ServedAdapter]:
        """Implements `AdapterManager`."""
        return served(await tell(ask, ListAdapters()))

    # -- knowledge ---------------------------------------------------------------

    async def _refresh_aside(self, ask: Ask) -> None:
        try:
            await self._refresh(ask)
        except HooklineError as error:
            _log.warning("adapters are those of before: %s", error)
        finally:
            self._refreshing = None

    async def _refresh(self, ask: Ask) -> None:
        """Reads the engines' adapters; tells those that are new what they lack."""
        before = set(self._engines.answers)
        await self._engines.refresh(ask)
        for name, told in list(self._gone.items()):
            if told & self._engines.having(name):  # another server has loaded it again
                del self._gone[name]
        refs = self._engines.refs
        if before and not set(self._engines.answers) <= before:
            await self._restore(ask, refs)
            refs = self._engines.refs
        for name in self._gone:
            refs.pop(name, None)
        self._facts.replace(KnownAdapters(self._facts.version + 1, refs))

    async def _restore(self, ask: Ask, refs: dict[str, AdapterRef]) -> None:
        """Tells engines that are new which adapters were loaded and unloaded here."""
        for name in self._gone.keys() & refs.keys():
            await tell(ask, UnloadAdapter(name))
            self._gone[name] |= set(self._engines.answers)
        for ref in self._engines.missing(self._own):
            adapter = AdapterToLoad(
                name=ref.name,
                path=ref.path,
                base_model_name=ref.base_model_name,
                is_pinned=ref.is_pinned,
            )
            try:
                await self._load_everywhere(ask, adapter)
            except ApiError as error:
                _log.error(
                    "an engine that is new does not load %s: %s", ref.name, error
                )
        await self._engines.refresh(ask)


async def _abandon(ask: Ask, ticket: str) -> None:
    try:
        await tell(ask, AbandonAdapter(ticket))
    except HooklineError as error:
        _log.warning("an adapter may stay in memory without a name: %s", error)


async def _until(
    ask: Ask, read: Callable[[Sequence[LoraAnswer]], T | None], question: ListAdapters
) -> T:
    """Asks the engines, less and less often, until there is a result."""
    pause = _FIRST_PAUSE
    while (found := read(await tell(ask, question))) is None:
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return found


def _raise_error(answers: Sequence[LoraAnswer]) -> None:
    error = next((each.error for each in answers if each.error is not None), None)
    if error is not None:
        raise _refused(error, "lora_name")


def _refused(message: str, param: str) -> ApiError:
    return ApiError(400, message, code="invalid_adapter", param=param)


def _unknown(name: str) -> ApiError:
    message = f"there is no adapter {name[:64]!r}: see GET /v1/adapters"
    return ApiError(404, message, code="adapter_not_found", param="lora_name")

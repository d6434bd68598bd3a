"""Prompts' KV between the phases: whoever keeps it learns that nobody takes it."""

import asyncio
import logging
import uuid
from collections.abc import Iterable

from hookline_gateway.upstreams.asking import Message, UnreachableError, Upstream
from hookline_gateway.upstreams.headers import Headers
from hookline_gateway.upstreams.instance import Instance
from hookline_pd_proxy.numbers import Numbers, Release

PATH = "/v1/kv_transfers/"

ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 0.1
"""Pause before the second attempt; each further one is twice as long."""
ATTEMPT_SECONDS = 5.0

MOST_OPEN = 4096
"""Releases under way; instances free what further ones would by their own deadline."""

_UNKNOWN = frozenset({404, 405, 501})
"""Answers of instances that do not know the call, or keep nothing."""

logger = logging.getLogger(__name__)


class Releases:
    """Tells instances to free KV, in the background.

    It outlives the requests that it is for, which end when their clients leave.
    """

    def __init__(self, upstream: Upstream, numbers: Numbers) -> None:
        self._upstream = upstream
        self._numbers = numbers
        self._open: set[asyncio.Task[None]] = set()

    def release(
        self, instances: Iterable[Instance], transfer_id: str, headers: Headers
    ) -> None:
        """Frees what these instances keep under an id."""
        for instance in instances:
            if len(self._open) >= MOST_OPEN:
                self._numbers.released(Release.FAILED)
                continue
            task = asyncio.create_task(self._release(instance, transfer_id, headers))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def end(self, seconds: float) -> None:
        """Waits a limited time for the open ones, then gives them up."""
        if not self._open:
            return
        _, late = await asyncio.wait(self._open, timeout=seconds)
        for task in late:
            self._numbers.released(Release.FAILED)
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _release(
        self, instance: Instance, transfer_id: str, headers: Headers
    ) -> None:
        message = Message(
            method="DELETE", path=PATH + transfer_id, headers=headers, body=b""
        )
        why = ""
        for number in range(ATTEMPTS):
            if number:
                await asyncio.sleep(FIRST_PAUSE_SECONDS * 2 ** (number - 1))
            try:
                async with asyncio.timeout(ATTEMPT_SECONDS):
                    status = await self._attempt(instance, message)
            except (UnreachableError, TimeoutError) as error:
                why = str(error) or "no answer"
                continue
            if status < 400 or status in _UNKNOWN:
                known = status < 400
                self._numbers.released(Release.DONE if known else Release.UNKNOWN)
                return
            why = f"status {status}"
            if status < 429:
                break
        self._numbers.released(Release.FAILED)
        logger.warning(
            "the prefill instance %s may keep KV that nobody takes: %s",
            instance.name,
            why,
        )

    async def _attempt(self, instance: Instance, message: Message) -> int:
        async with self._upstream.ask(instance, message) as answer:
            return answer.head.status


class Handover:
    """The KV of one request, from the prefill instances to a decode instance.

    Attributes:
        transfer_id: Name under which the instances keep it.
    """

    def __init__(self, releases: Releases, headers: Headers) -> None:
        self.transfer_id = uuid.uuid4().hex
        self._releases = releases
        self._headers = headers
        self._keepers: list[Instance] = []

    def asked(self, instance: Instance) -> None:
        """An instance may keep something from now on."""
        self._keepers.append(instance)

    def refused(self, instance: Instance) -> None:
        """An instance has said that it keeps nothing."""
        self._keepers.remove(instance)

    def release(self, but: Instance | None = None) -> None:
        """Nobody takes what instances keep, but that of one."""
        others = [each for each in self._keepers if each is not but]
        self._keepers = [each for each in self._keepers if each is but]
        self._releases.release(others, self.transfer_id, self._headers)

    def taken(self) -> None:
        """A decode instance has taken it, and has it freed itself."""
        self._keepers.clear()

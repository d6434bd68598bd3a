"""The first phase: a prefill instance computes the prompt and one token."""

import asyncio
import time
from dataclasses import dataclass

import msgspec

from hookline_gateway.upstreams.asking import (
    Answer,
    BrokenError,
    Message,
    TooLargeError,
    UnreachableError,
    Upstream,
)
from hookline_gateway.upstreams.headers import Headers, without
from hookline_gateway.upstreams.instance import Instance
from hookline_gateway.upstreams.pool import Pool
from hookline_pd_proxy.handover import Handover
from hookline_pd_proxy.numbers import Fallback, Numbers
from hookline_pd_proxy.pools import Role
from hookline_pd_proxy.proxied_request import ProxiedRequest
from hookline_pd_proxy.settings import RouteSettings

MOST_ANSWER_BYTES = 16 * 1024 * 1024

NULL = b"null"


class _Shape(msgspec.Struct):
    """The fields of a response that are read."""

    kv_transfer_params: msgspec.Raw = msgspec.Raw(NULL)


@dataclass(frozen=True, slots=True)
class _Failed:
    """A failed attempt; `is_final` if another instance would not help."""

    reason: Fallback
    is_final: bool = False


class Prefill:
    """Sends prompts to prefill instances, to another one if one fails."""

    def __init__(
        self, pool: Pool, upstream: Upstream, settings: RouteSettings, numbers: Numbers
    ) -> None:
        self._pool = pool
        self._upstream = upstream
        self._settings = settings
        self._numbers = numbers

    async def run(
        self,
        asked: ProxiedRequest,
        headers: Headers,
        handover: Handover,
        max_model_len: int | None,
    ) -> msgspec.Raw | None:
        """Returns the instance's transfer parameters for the next one, or None.

        It never raises: without parameters the decode instance computes the prompt.

        Args:
            asked: The request.
            headers: Its headers.
            handover: Learns who may keep its KV.
            max_model_len: Maximum tokens of a sequence of decode instances, if known.
        """
        began = time.perf_counter()
        # Compressed responses are not decoded here.
        message = Message(
            method="POST",
            path=asked.path,
            headers=without(headers, "Accept-Encoding"),
            body=asked.for_prefill(handover.transfer_id, max_model_len),
        )
        try:
            async with asyncio.timeout(self._settings.prefill_timeout):
                result = await self._attempts(message, handover)
        except TimeoutError:
            result = _Failed(Fallback.DEADLINE)
        if isinstance(result, _Failed):
            handover.release()
            self._numbers.fell_back(result.reason)
            return None
        self._numbers.prefilled(time.perf_counter() - began)
        return None if bytes(result) == NULL else result

    async def _attempts(
        self, message: Message, handover: Handover
    ) -> msgspec.Raw | _Failed:
        failed = _Failed(Fallback.NO_INSTANCE)
        tried: list[Instance] = []
        for number in range(1 + self._settings.retries):
            instance = self._pool.choose(tried)
            if instance is None or failed.is_final:
                break
            if number:
                self._numbers.retried(Role.PREFILL)
            tried.append(instance)
            handover.asked(instance)
            try:
                async with self._upstream.ask(instance, message) as answer:
                    result = await _transfer_params(answer)
                    if answer.head.status != 200:
                        handover.refused(instance)
            except UnreachableError as error:
                result = _Failed(Fallback.UNREACHABLE)
                if not error.may_have_it:
                    handover.refused(instance)
            if not isinstance(result, _Failed):
                handover.release(but=instance)
                return result
            failed = result
        return failed


async def _transfer_params(answer: Answer) -> msgspec.Raw | _Failed:
    if answer.is_worth_a_retry:
        return _Failed(Fallback.FAILED)
    if answer.head.status != 200:
        # The decode instance gets the same request, and its response counts.
        return _Failed(Fallback.REFUSED, is_final=True)
    try:
        body = await answer.whole(MOST_ANSWER_BYTES)
        found = msgspec.json.decode(body, type=_Shape).kv_transfer_params
    except BrokenError:
        return _Failed(Fallback.UNREACHABLE)
    except (TooLargeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Failed(Fallback.MALFORMED)
    text = bytes(found).strip()
    if text != NULL and not text.startswith(b"{"):
        return _Failed(Fallback.MALFORMED)
    return msgspec.Raw(text)

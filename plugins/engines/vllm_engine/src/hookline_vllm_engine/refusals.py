"""What vLLM cannot do for a request, which a front end refuses before it is sent.

It imports nothing of vLLM: API servers have it, too.
"""

import msgspec

from hookline import hookimpl
from hookline.config.extensions import KV_TRANSFER
from hookline.exceptions import GrammarError, RequestError
from hookline.payloads import ExtensionFacts
from hookline.pooling import POOLING
from hookline.request import GenerateRequest
from hookline.request_part import RequestPart

NAME = "vllm"
"""Name of the engine, and of its section in the facts."""
MOST_TEMPERATURE = 2.0
"""Highest temperature that vLLM takes."""


class VllmFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine of vLLM serves.

    Attributes:
        most_logprobs: Most likeliest tokens that it tells of a position.
        drafts: Whether it speculates.
        adapters: Names of the LoRA adapters that it serves.
        only_embeds: Whether it generates nothing.
    """

    most_logprobs: int
    drafts: bool = False
    adapters: tuple[str, ...] = ()
    only_embeds: bool = False

    def prepared(
        self,
        asked: object | None,  # noqa: ARG002 - nobody asks it by its name
        request: object | None = None,
    ) -> RequestPart | None:
        """Adds nothing to a request.

        Raises:
            RequestError: vLLM cannot serve it; the field is named.
        """
        if not isinstance(request, GenerateRequest):
            return None
        if KV_TRANSFER in request.sections:
            raise _refuse("kv_transfer_params", "are Hookline's own engine's")
        if self.only_embeds and POOLING not in request.sections:
            raise RequestError("this server only embeds: vLLM has --runner pooling")
        adapter = request.facts.lora
        if adapter is not None and adapter not in self.adapters:
            raise _refuse("model", "names no adapter that vLLM has loaded")
        params = request.params
        for name in ("logprobs", "prompt_logprobs"):
            if (getattr(params, name) or 0) > self.most_logprobs:
                most = f"is above vLLM's --max-logprobs, {self.most_logprobs}"
                raise _refuse(name, most)
        if params.temperature > MOST_TEMPERATURE:
            raise _refuse("temperature", f"is above vLLM's most, {MOST_TEMPERATURE}")
        if self.drafts:
            self._check_drafts(request)
        wanted = params.structured_outputs
        if wanted is not None and getattr(wanted, "reasoning", None) is not None:
            raise GrammarError(
                "reasoning before a structured output needs another engine"
            )
        return None

    def _check_drafts(self, request: GenerateRequest) -> None:
        params = request.params
        if not params.speculation:
            raise _refuse("speculation", "is for all requests or for none in vLLM")
        for name in ("min_p", "logit_bias"):
            if getattr(params, name):
                raise _refuse(name, "cannot be combined with vLLM's speculation")


@hookimpl
def create_extension_facts(context: ExtensionFacts) -> object:
    """Returns the facts of an engine of vLLM in another process."""
    return msgspec.convert(context.section, VllmFacts)


def _refuse(field: str, reason: str) -> RequestError:
    return RequestError(f"{field} {reason}", param=field)

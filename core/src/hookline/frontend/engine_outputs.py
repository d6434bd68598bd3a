"""Makes the output processor of an engine as the configuration asks for it."""

from functools import partial

from hookline.clock import Clock
from hookline.config.observers import ObserverConfig
from hookline.frontend.accounting import RequestAccounting
from hookline.frontend.output_processor import OutputProcessor
from hookline.frontend.text_stream import make_text_streams
from hookline.tokenizer import Tokenizer
from hookline.transport.engine_client import EngineInfo


def make_outputs(
    clock: Clock,
    config: ObserverConfig,
    tokenizer: Tokenizer,
    client_index: int,
    info: EngineInfo,
) -> OutputProcessor:
    """Returns a processor with its own accounting and the tokenizer's text streams."""
    accounting = RequestAccounting(
        clock,
        info.clock,
        is_detailed=config.has_details,
        keep_prompts=config.keep_prompts,
        client_index=client_index,
    )
    return OutputProcessor(accounting, clock, partial(make_text_streams, tokenizer))

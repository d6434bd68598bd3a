"""`hookline generate`: completes prompts without a server."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from hookline.config import EngineConfig
from hookline.outputs import CompletionOutput, RequestOutput
from hookline.sampling_params import SamplingParams
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.arguments import (
    Arguments,
    engine_config,
    read_arguments,
)
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.options.generate import DEFAULT_MAX_TOKENS, GENERATE_OPTIONS
from hookline_server.cli.output import say
from hookline_server.cli.standard_input import close_standard_input

RULE = "-" * 72


def run(argv: list[str]) -> int:
    """Completes the prompts and prints them."""
    arguments = read_arguments(
        "generate",
        "Completes prompts without a server.",
        [*GENERATE_OPTIONS, *engine_options()],
        argv,
        default_loggers=(),
    )
    config = engine_config(arguments, in_process=True)
    given = _sampling(arguments)
    msgspec.structs.replace(SamplingParams(), **given)  # before the model is loaded
    prompts = _prompts(arguments)
    close_standard_input()
    outputs = _generate(config, prompts, given)
    if "run.json" in arguments.given:
        _print_json(prompts, outputs)
    else:
        _print_texts(prompts, outputs)
    return 0


def _sampling(arguments: Arguments) -> dict[str, object]:
    given = {"max_tokens": DEFAULT_MAX_TOKENS, **arguments.section("sampling")}
    if "stop" in given:
        given["stop"] = tuple(arguments.texts("sampling.stop"))
    return given


def _prompts(arguments: Arguments) -> list[str]:
    files = [_read(path) for path in arguments.texts("run.prompt_files")]
    prompts = [*arguments.texts("run.prompts"), *files]
    if not prompts:
        raise UsageError("give a --prompt or a --prompt-file")
    return prompts


def _read(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def _generate(
    config: EngineConfig, prompts: list[str], given: Mapping[str, object]
) -> list[RequestOutput]:
    from hookline_offline.llm import LLM  # noqa: PLC0415 - it imports torch

    llm = LLM.from_config(config)
    try:
        show = len(prompts) > 1 and sys.stderr.isatty()
        params = msgspec.structs.replace(llm.get_default_sampling_params(), **given)
        return llm.generate(prompts, params, use_tqdm=show)
    finally:
        llm.close()


def _print_texts(prompts: Sequence[str], outputs: Sequence[RequestOutput]) -> None:
    texts = [
        prompt + completion.text
        for prompt, output in zip(prompts, outputs, strict=True)
        for completion in output.outputs
    ]
    say(f"\n{RULE}\n".join(texts))


def _print_json(prompts: Sequence[str], outputs: Sequence[RequestOutput]) -> None:
    """Prints a JSON object per prompt, one a line."""
    for prompt, output in zip(prompts, outputs, strict=True):
        row = {
            "prompt": prompt,
            "prompt_tokens": len(output.prompt_token_ids),
            "cached_tokens": output.cached_tokens,
            "completions": [_completion(each) for each in output.outputs],
        }
        say(json.dumps(row, ensure_ascii=False))


def _completion(completion: CompletionOutput) -> dict[str, object]:
    return {
        "text": completion.text,
        "token_ids": completion.token_ids,
        "finish_reason": completion.finish_reason,
        "stop_reason": completion.stop_reason,
    }

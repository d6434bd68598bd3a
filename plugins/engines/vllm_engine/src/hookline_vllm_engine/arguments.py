"""vLLM's configuration: Hookline's model, and the arguments after `--`."""

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from hookline.config.engine import EngineConfig
from hookline.config.model import TokenizerMode
from hookline.config.options import options_of
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.model_description import find_folder
from hookline_vllm_engine.adapters import split
from hookline_vllm_engine.binding import Binding

_FLAG = "engine-argument"
_PARTS = (
    *("model", "cache", "scheduler", "executor", "parallel", "speculative"),
    *("kv_transfer", "pooler", "extensions", "logits_processors"),
    *("structured_outputs", "engine_options"),
)
"""What only Hookline's own engine reads, but for the options below."""
_TAKEN = (
    *("model", "served-model-name", "tokenizer", "tokenizer-mode", "hf-overrides"),
    # The front end's own.
    "chat-template",
    *("max-num-queued-reqs", "max-num-queued-tokens", "sleep-policy"),
)
_OURS = {
    "data_parallel_size": (1, "give Hookline --data-parallel-size before `--`"),
    "kv_transfer_config": (None, "requests have no kv_transfer_params with vLLM"),
}
"""Arguments that would do nothing, or harm: their defaults, and what to do instead."""


def vllm_config(config: EngineConfig, vllm: Binding) -> Any:
    """Returns the `VllmConfig`.

    Raises:
        ConfigError: An option is not for vLLM, or vLLM refuses an argument.
        ModelLoadError: The folder is missing, or vLLM does not know the model.
    """
    refuse_own_options(config)
    model = config.model
    # Last, as vLLM takes the last one; with them, it looks for no other model.
    own = ["--model", str(find_folder(model.model))]
    own += ["--served-model-name", model.served_name]
    if model.tokenizer:
        own += ["--tokenizer", model.tokenizer]
    if model.tokenizer_mode is not TokenizerMode.AUTO:
        own += ["--tokenizer-mode", model.tokenizer_mode]
    if model.hf_overrides:
        own += ["--hf-overrides", json.dumps(model.hf_overrides)]
    arguments, adapters = split(config.engine_arguments)
    parsed = _parsed([*arguments, *own], vllm)
    if adapters and not parsed.enable_lora:
        raise ConfigError(_FLAG, "--lora-modules after `--` needs --enable-lora")
    if any(each.name == model.served_name for each in adapters):
        raise ConfigError(_FLAG, "--lora-modules: the model itself has this name")
    for name, (default, instead) in _OURS.items():
        if getattr(parsed, name) not in (default, None):
            flag = f"--{name.replace('_', '-')}"
            raise ConfigError(_FLAG, f"{flag} after `--` is not supported: {instead}")
    try:
        return vllm.AsyncEngineArgs.from_cli_args(parsed).create_engine_config()
    except (
        vllm.VLLMError,
        *(ValueError, TypeError, NotImplementedError, OSError),
    ) as error:
        raise ModelLoadError(model.model, f"vLLM: {_line(error)}") from error


def refuse_own_options(config: EngineConfig) -> None:
    """Raises `ConfigError` for an option that only Hookline's own engine reads."""
    for each in options_of(type(config)):
        if each.path[0] not in _PARTS or each.flag in _TAKEN:
            continue
        value: object = config
        for name in each.path:
            value = getattr(value, name)
        if value != each.default:
            raise ConfigError(
                each.flag, "is not for the engine vllm: give vLLM its own after `--`"
            )


def _parsed(arguments: Sequence[str], vllm: Binding) -> Any:
    base: Any = vllm.FlexibleArgumentParser

    class Parser(base):  # type: ignore[misc]
        def error(self, message: str) -> NoReturn:
            raise ConfigError(_FLAG, f"vLLM: {message}")

    parser = vllm.AsyncEngineArgs.add_cli_args(Parser(prog="hookline serve … --"))
    return parser.parse_args(list(arguments))


def _line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else repr(error)

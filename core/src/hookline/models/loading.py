"""Loads a model with its weights, or with random ones, and refuses what is damaged."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.utils import logging as transformers_logging

from hookline.config import Dtype, LoadFormat, ModelConfig
from hookline.exceptions import ModelLoadError
from hookline.models.attention import IMPLEMENTATION
from hookline.models.description import ModelDescription
from hookline.models.support import refuse_unsupported
from hookline_kernels import CPU

_LOAD_ERRORS = (
    OSError,
    ValueError,
    RuntimeError,
    KeyError,
    TypeError,
    AttributeError,
    ImportError,
    SafetensorError,
)


def load_model(
    config: ModelConfig,
    description: ModelDescription,
    max_model_len: int,
    device: torch.device = CPU.device,
    attention: str = IMPLEMENTATION,
) -> PreTrainedModel:
    """Loads a causal language model, ready for inference.

    Args:
        config: Which one.
        description: What its folder tells.
        max_model_len: Longest prompt plus output in tokens.
        device: Where its weights are to be.
        attention: As `transformers` calls it; by default Hookline's.

    Raises:
        ModelLoadError: It cannot be read, is of a kind that cannot be served, or has
            no room on the device.
    """
    try:
        with _quietly():
            model = _load(config, description, max_model_len, device, attention)
            torch.nn.Module.to(model, device)
    except _LOAD_ERRORS as error:
        reason = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
        raise ModelLoadError(config.model, reason) from error
    model.train(mode=False)
    model.requires_grad_(requires_grad=False)
    return model


@contextmanager
def _quietly() -> Iterator[None]:
    """Without progress bars, and without reports of what becomes an error here."""
    was_on = transformers_logging.is_progress_bar_enabled()
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if was_on:
            transformers_logging.enable_progress_bar()


def _load(
    config: ModelConfig,
    description: ModelDescription,
    max_model_len: int,
    device: torch.device,
    attention: str,
) -> PreTrainedModel:
    found = AutoConfig.from_pretrained(description.folder, local_files_only=True)
    refuse_unsupported(config.model, found, max_model_len)
    dtype = _dtype(config, found.dtype)
    if config.load_format is LoadFormat.DUMMY:
        return _with_random_weights(config, found, dtype, device, attention)
    loaded = AutoModelForCausalLM.from_pretrained(
        description.folder,
        config=found,
        dtype=dtype,
        attn_implementation=attention,
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are refused below, by name
    )
    model, report = cast("tuple[PreTrainedModel, dict[str, set[object]]]", loaded)
    for problem in ("missing_keys", "mismatched_keys"):
        if report[problem]:
            names = ", ".join(sorted(map(_key_name, report[problem]))[:3])
            raise ModelLoadError(
                config.model,
                f"its weights have {len(report[problem])} {problem.replace('_', ' ')}, "
                f"such as {names}",
            )
    return model


def _key_name(key: object) -> str:
    """A mismatched key is reported with both shapes."""
    return str(key[0] if isinstance(key, tuple) else key)


def _with_random_weights(
    config: ModelConfig,
    found: PreTrainedConfig,
    dtype: torch.dtype,
    device: torch.device,
    attention: str,
) -> PreTrainedModel:
    """Made on the device; each kind of device makes other numbers of a seed."""
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices=devices), device:
        torch.manual_seed(config.seed)
        model = AutoModelForCausalLM.from_config(
            found, dtype=dtype, attn_implementation=attention
        )
    return cast("PreTrainedModel", model)


def _dtype(config: ModelConfig, checkpoint: torch.dtype | None) -> torch.dtype:
    if config.dtype is Dtype.AUTO:
        return checkpoint or torch.float32
    return {
        Dtype.BFLOAT16: torch.bfloat16,
        Dtype.FLOAT16: torch.float16,
        Dtype.FLOAT32: torch.float32,
    }[config.dtype]

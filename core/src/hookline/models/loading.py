"""Loads a model with its weights or random ones, and refuses damaged files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.utils import logging as transformers_logging

from hookline.config import Dtype, LoadFormat, ModelConfig
from hookline.exceptions import ModelLoadError
from hookline.models import mxfp4
from hookline.models.attention import IMPLEMENTATION
from hookline.models.config_limits import least_parameters, read_object
from hookline.models.description import ModelDescription
from hookline.models.few_layers import keep_few_layers
from hookline.models.own_attention import implementation_to_load, replace_attention
from hookline.models.support import refuse_unsupported
from hookline.models.weight_files import ShardingPlan, WeightFiles
from hookline_kernels import CPU

_LOAD_ERRORS = (
    OSError,
    ValueError,
    RuntimeError,
    LookupError,
    ArithmeticError,
    TypeError,
    AttributeError,
    ImportError,
    SafetensorError,
    StrictDataclassError,  # a value of another type in config.json
)


WHOLE = ShardingPlan()
"""Plan that reads every tensor completely."""


def load_model(
    config: ModelConfig,
    description: ModelDescription,
    max_model_len: int,
    device: torch.device = CPU.device,
    attention: str = IMPLEMENTATION,
    *,
    plan: ShardingPlan = WHOLE,
) -> PreTrainedModel:
    """Loads a causal language model, ready for inference.

    Args:
        config: Model, data type and load format.
        description: The contents of the model folder's descriptions.
        max_model_len: Maximum number of prompt plus output tokens.
        device: Device for the weights.
        attention: Name of an attention implementation of `transformers`; by default
            Hookline's.
        plan: Which part of each tensor to read.

    Raises:
        ModelLoadError: The model cannot be read, is not supported, needs code of its
            own folder, or does not fit on the device.
    """
    try:
        with _quietly():
            model = _load(config, description, max_model_len, device, attention, plan)
            if attention == IMPLEMENTATION:
                replace_attention(model)
            torch.nn.Module.to(model, device)
    except KeyError as error:
        raise ModelLoadError(config.model, _missing(error, description)) from error
    except _LOAD_ERRORS as error:
        reason = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
        raise ModelLoadError(config.model, reason) from error
    model.train(mode=False)
    model.requires_grad_(requires_grad=False)
    return model


def _missing(error: KeyError, description: ModelDescription) -> str:
    """Why a model cannot be loaded that looked up a key in vain."""
    if error.args == (IMPLEMENTATION,):
        return (
            f"{description.architecture} computes attention in modules of its own, "
            "which cannot read a paged KV cache"
        )
    return f"KeyError: {error}"


@contextmanager
def _quietly() -> Iterator[None]:
    """Silences progress bars, and reports of what becomes an error here."""
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


def _load(  # noqa: PLR0917 - as `load_model`
    config: ModelConfig,
    description: ModelDescription,
    max_model_len: int,
    device: torch.device,
    attention: str,
    plan: ShardingPlan,
) -> PreTrainedModel:
    _refuse_own_code(config.model, description.folder)
    found = AutoConfig.from_pretrained(
        description.folder, local_files_only=True, trust_remote_code=False
    )
    if config.has_few_layers:
        keep_few_layers(found)
    refuse_unsupported(config.model, found, max_model_len)
    kind = _class_of(config.model, found)
    to_load = implementation_to_load(found.model_type, attention)
    is_mxfp4 = _take_out_mxfp4(found)
    dtype = _dtype(config, found.dtype)
    if config.load_format is LoadFormat.DUMMY:
        return _with_random_weights(config, found, dtype, device, to_load)
    with WeightFiles(description.folder) as files:
        shards = files.shards(plan)
        tensors = mxfp4.dequantized(shards) if is_mxfp4 else shards
        # Given tensors by name, `transformers` renames, converts and ties them as it
        # does when it reads the files itself, but never looks at the folder.
        loaded = kind.from_pretrained(
            None,
            config=_config_for(kind, found),
            state_dict=tensors,
            dtype=dtype,
            attn_implementation=to_load,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, by name
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


def _take_out_mxfp4(config: PreTrainedConfig) -> bool:
    """Whether weights are in MXFP4; if so, `transformers` is not told of it.

    Its own loader needs kernels for GPUs.
    """
    quantization = config.to_dict().get("quantization_config")
    if not isinstance(quantization, dict):
        return False
    if quantization.get("quant_method") != mxfp4.METHOD:
        return False
    del config.quantization_config
    return True


def _refuse_own_code(name: str, folder: Path) -> None:
    """Raises `ModelLoadError` for a model type that only the folder's code knows.

    `auto_map` names such code. It is never run: where `transformers` has the model
    type itself, its own implementation is used.
    """
    described = read_object(name, folder / "config.json")
    model_type = described.get("model_type")
    if "auto_map" in described and model_type not in CONFIG_MAPPING:
        raise ModelLoadError(
            name,
            f"its model type {model_type!r} is only known to code in the model folder "
            "(auto_map), which Hookline never runs",
        )


def _class_of(name: str, config: PreTrainedConfig) -> type[PreTrainedModel]:
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelLoadError(
            name, f"{type(config).__name__} does not belong to a causal language model"
        )
    return cast("type[PreTrainedModel]", MODEL_FOR_CAUSAL_LM_MAPPING[type(config)])


def _config_for(
    kind: type[PreTrainedModel], config: PreTrainedConfig
) -> PreTrainedConfig:
    """The part of a configuration of several models that this class takes."""
    text = config.sub_configs.get("text_config")
    if text is None or kind.config_class is not text:
        return config
    return config.get_text_config()


def _key_name(key: object) -> str:
    """Returns the name alone; a mismatched key is reported with both shapes."""
    return str(key[0] if isinstance(key, tuple) else key)


def _with_random_weights(
    config: ModelConfig,
    found: PreTrainedConfig,
    dtype: torch.dtype,
    device: torch.device,
    attention: str,
) -> PreTrainedModel:
    """Initializes weights on the device; other kinds of device draw other numbers."""
    _refuse_more_than_memory(config.model, found, dtype, device)
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices=devices), device:
        torch.manual_seed(config.seed)
        model = AutoModelForCausalLM.from_config(
            found,
            dtype=dtype,
            attn_implementation=attention,
            trust_remote_code=False,
        )
    return cast("PreTrainedModel", model)


def _refuse_more_than_memory(
    name: str, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device
) -> None:
    """Raises `ModelLoadError` before an allocation that could end other processes."""
    least = least_parameters(config.get_text_config().to_dict()) * dtype.itemsize
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if device.type == "cpu" and least > memory:
        raise ModelLoadError(
            name,
            f"its weights have more than {least >> 30} GiB, the machine's memory is "
            f"{memory >> 30} GiB",
        )


def _dtype(config: ModelConfig, checkpoint: torch.dtype | None) -> torch.dtype:
    if config.dtype is Dtype.AUTO:
        return checkpoint or torch.float32
    return {
        Dtype.BFLOAT16: torch.bfloat16,
        Dtype.FLOAT16: torch.float16,
        Dtype.FLOAT32: torch.float32,
    }[config.dtype]

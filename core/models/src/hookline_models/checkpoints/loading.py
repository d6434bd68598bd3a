"""Loads a model with its weights or random ones, and refuses damaged files."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.utils import logging as transformers_logging

from hookline.config.model import Dtype, LoadFormat, ModelConfig
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.model_description import ModelDescription
from hookline_description.overriding import read_config_file
from hookline_kernels import CPU
from hookline_models.checkpoints.few_layers import keep_few_layers
from hookline_models.checkpoints.finite import in_words
from hookline_models.checkpoints.model_part import WHOLE, DivideModel, ModelPart
from hookline_models.checkpoints.opening import open_weights
from hookline_models.checkpoints.random_weights import random_model
from hookline_models.checkpoints.rope_choice import choose_rope, refuse_unknown_ropes
from hookline_models.checkpoints.support import read_config, refuse_unsupported
from hookline_models.checkpoints.weight_files import stored_parts
from hookline_models.family import ModelFamily, find_family
from hookline_models.forwards.attention import IMPLEMENTATION
from hookline_models.quantization import (
    QuantizationMethod,
    ReadTensor,
    StoredWeights,
    find_method,
    find_scales_method,
    forget_quantization,
    refuse_unnamed,
)

_log = logging.getLogger(__name__)

_OUTPUT = "lm_head.weight"

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


def load_model(
    config: ModelConfig,
    description: ModelDescription,
    max_model_len: int,
    device: torch.device = CPU.device,
    attention: str = IMPLEMENTATION,
    *,
    divide: DivideModel | None = None,
    may_compile: bool = True,
    cache_dtype: torch.dtype | None = None,
) -> PreTrainedModel:
    """Loads a causal language model, ready for inference.

    Args:
        config: Model, data type and load format.
        description: The contents of the model folder's descriptions.
        max_model_len: Maximum number of prompt plus output tokens.
        device: Device for the weights.
        attention: Name of an attention implementation of `transformers`; by default
            Hookline's.
        divide: Plans which part of the model to load; None loads all of it.
        may_compile: Quantized layers use kernels.
        cache_dtype: Data type of the KV cache, if it has 8 bits: the checkpoint may
            have scales for it.

    Raises:
        ModelLoadError: The model cannot be read, is not supported, needs code of its
            own folder, or does not fit on the device.
        ConfigError: As many ranks cannot share it.
    """
    with as_load_errors(config.model, description.architecture):
        job = LoadJob(
            config=config,
            folder=description.folder,
            device=device,
            attention=attention,
            divide=divide,
            may_compile=may_compile,
            cache_dtype=cache_dtype,
        )
        model = _load(job, max_model_len)
        torch.nn.Module.to(model, device)
    model.train(mode=False)
    model.requires_grad_(requires_grad=False)
    return model


@contextmanager
def as_load_errors(name: str, architecture: str) -> Iterator[None]:
    """Raises `ModelLoadError` for whatever libraries raise, and silences them."""
    try:
        with _quietly():
            yield
    except KeyError as error:
        raise ModelLoadError(name, _missing(error, architecture)) from error
    except _LOAD_ERRORS as error:
        reason = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
        raise ModelLoadError(name, reason) from error


def _missing(error: KeyError, architecture: str) -> str:
    """Why a model cannot be loaded that looked up a key in vain."""
    if error.args == (IMPLEMENTATION,):
        return (
            f"{architecture} computes attention in modules of its own, "
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadJob:
    """What `load_model` was asked for."""

    config: ModelConfig
    folder: Path
    device: torch.device = CPU.device
    attention: str = IMPLEMENTATION
    divide: DivideModel | None = None
    may_compile: bool = True
    cache_dtype: torch.dtype | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """What a model's description says.

    Attributes:
        kind: Its class.
        config: Its configuration, without what `transformers` must not read.
        attention: Name of the attention to load it with.
        family: Replaces its attention modules; None leaves them.
        dtype: Data type to load it in.
        quantization: How weights are quantized; None if they are not.
        whole: The configuration of all ranks' model.
        part: What this rank has of it.
    """

    kind: type[PreTrainedModel]
    config: PreTrainedConfig
    attention: str
    family: ModelFamily | None
    dtype: torch.dtype
    quantization: QuantizationMethod | None
    whole: PreTrainedConfig
    part: ModelPart


def _load(job: LoadJob, max_model_len: int) -> PreTrainedModel:
    config, found = job.config, find_model(job, max_model_len)
    if config.load_format is LoadFormat.DUMMY:
        model = _with_random_weights(job, found)
    else:
        model = _read(job, found)
    if found.family is not None:
        found.family.replace_attention(model)
    if found.quantization is not None:
        found.quantization.quantize(model, may_compile=job.may_compile)
    found.part.finish(model)
    return model


def find_model(job: LoadJob, max_model_len: int) -> FoundModel:
    """Reads a model's configuration, and refuses what cannot be served."""
    name = job.config.model
    described = read_config_file(job.config, job.folder)
    found = read_config(job.config, job.folder, described)
    if job.config.has_few_layers:
        keep_few_layers(found)
    refuse_unsupported(name, found)
    refuse_unknown_ropes(name, found)
    choose_rope(found, max_model_len)
    kind = _class_of(name, found)
    _refuse_other_class(job.config, kind)
    is_paged = job.attention == IMPLEMENTATION
    family = find_family(name, found.model_type) if is_paged else None
    quantization = find_method(job.config, described)
    dtype = _dtype(job.config, found.dtype)
    if quantization is not None:
        dtype = quantization.activation_dtype(dtype, job.device)
    forget_quantization(found)
    whole = deepcopy(found)
    part = (None if job.divide is None else job.divide(found)) or WHOLE
    return FoundModel(
        kind=kind,
        config=found,
        attention=job.attention if family is None else family.attention,
        family=family,
        dtype=dtype,
        quantization=quantization,
        whole=whole,
        part=part,
    )


def _read(job: LoadJob, found: FoundModel) -> PreTrainedModel:
    """Reads the weights of a checkpoint."""
    method = found.quantization
    with open_weights(job.config, job.folder) as files, files.explained():
        own = files.shards(found.part)
        if method is None:
            refuse_unnamed(job.config.model, own)
            model = model_of(job, found, own)
            method = find_scales_method(job.config, own, job.cache_dtype)
        else:
            whole = own if found.part.is_whole else files.shards(WHOLE)
            weights = StoredWeights(own=own, whole=whole, cut=found.part.cut)
            model = model_of(job, found, method.read(weights, found.dtype))
            method.fill(
                model,
                may_compile=job.may_compile,
                reads_all=not job.config.has_few_layers and found.part.has_all_layers,
            )
        if method is not None:
            method.use_cache_scales(model, own, job.cache_dtype)
    if files.non_finite and not job.config.has_few_layers:
        _log.warning(
            "weights of the model are infinite or NaN, which ends the requests whose "
            "logits they reach: %s",
            in_words(files.non_finite.values()),
        )
    return model


def model_of(
    job: LoadJob, found: FoundModel, tensors: Mapping[str, ReadTensor]
) -> PreTrainedModel:
    """Makes a model of tensors by name.

    `transformers` renames, converts and ties them as it does when it reads the files
    itself, but never looks at the folder.
    """
    loaded = found.part.kind(found.kind).from_pretrained(
        None,
        config=_config_for(found.kind, found.config),
        state_dict=tensors,
        dtype=found.dtype,
        attn_implementation=found.attention,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # refused below, by name
    )
    model = _checked(job.config, loaded)
    model.__class__ = found.kind
    return model


def _checked(config: ModelConfig, loaded: object) -> PreTrainedModel:
    """Returns a loaded model; raises `ModelLoadError` if its weights do not fit."""
    model, report = cast("tuple[PreTrainedModel, dict[str, set[object]]]", loaded)
    for problem in ("missing_keys", "mismatched_keys"):
        if report[problem]:
            names = sorted(map(_key_name, report[problem]))
            reason = (
                f"its weights have {len(names)} {problem.replace('_', ' ')}, such as "
                f"{', '.join(names[:3])}"
            )
            raise ModelLoadError(config.model, reason + _hint(problem, names))
    return model


def _hint(problem: str, names: Sequence[str]) -> str:
    """Says what to do if nothing but the output layer is missing."""
    if problem != "missing_keys" or names != [_OUTPUT]:
        return ""
    override = '{"tie_word_embeddings": true}'
    return f"; if it is the embedding, give --hf-overrides '{override}'"


def _class_of(name: str, config: PreTrainedConfig) -> type[PreTrainedModel]:
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelLoadError(
            name, f"{type(config).__name__} does not belong to a causal language model"
        )
    return cast("type[PreTrainedModel]", MODEL_FOR_CAUSAL_LM_MAPPING[type(config)])


def _refuse_other_class(config: ModelConfig, kind: type[PreTrainedModel]) -> None:
    """Raises `ConfigError` if the option asks for the class of another model type."""
    names = config.hf_overrides.get("architectures")
    if names is not None and names != [kind.__name__]:
        raise ConfigError(
            "hf-overrides",
            f"architectures is {names}, but model_type decides, and gives "
            f"{kind.__name__}",
        )


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


def _with_random_weights(job: LoadJob, found: FoundModel) -> PreTrainedModel:
    """Initializes all weights, of which each of several ranks keeps its part."""
    model = random_model(
        job.config,
        found.whole,
        attention=found.attention,
        dtype=found.dtype,
        device=job.device,
        copies=found.part.num_parts,
    )
    if found.part.is_whole:
        return model
    return model_of(job, found, stored_parts(model, found.part))


def _dtype(config: ModelConfig, checkpoint: object) -> torch.dtype:
    if config.dtype is Dtype.AUTO:
        return checkpoint if isinstance(checkpoint, torch.dtype) else torch.float32
    return {
        Dtype.BFLOAT16: torch.bfloat16,
        Dtype.FLOAT16: torch.float16,
        Dtype.FLOAT32: torch.float32,
    }[config.dtype]

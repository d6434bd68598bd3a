"""Models with random weights, which cost what trained ones do."""

from typing import cast

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from hookline.config.model import ModelConfig
from hookline.exceptions import ModelLoadError
from hookline_description.sizes import least_parameters
from hookline_host.memory import total_memory


def random_model(
    config: ModelConfig,
    described: PreTrainedConfig,
    *,
    attention: str,
    dtype: torch.dtype,
    device: torch.device,
    copies: int = 1,
) -> PreTrainedModel:
    """Initializes weights on the device; other kinds of device draw other numbers.

    Args:
        config: The model, and the seed.
        described: The model's configuration.
        attention: Name of an attention implementation of `transformers`.
        dtype: Data type of the weights.
        device: Device of the weights.
        copies: Number of processes on this machine that do so at the same time.

    Raises:
        ModelLoadError: They do not fit into the memory of the machine.
    """
    least = least_parameters(described.get_text_config().to_dict()) * dtype.itemsize
    if device.type == "cpu":
        _refuse_more_than_memory(config.model, least * copies)
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices=devices), device:
        torch.manual_seed(config.seed)
        model = AutoModelForCausalLM.from_config(
            described,
            dtype=dtype,
            attn_implementation=attention,
            trust_remote_code=False,
        )
    return cast("PreTrainedModel", model)


def _refuse_more_than_memory(name: str, least: int) -> None:
    """Raises `ModelLoadError` before an allocation that could end other processes."""
    memory = total_memory()
    if least > memory:
        raise ModelLoadError(
            name,
            f"its weights have more than {least >> 30} GiB, and this process may take "
            f"{memory >> 30} GiB of memory",
        )

"""Reads which format `config.json` says that a checkpoint's weights have."""

from collections.abc import Callable, Mapping

from hookline.exceptions import ModelLoadError
from hookline_quantized.awq import Awq
from hookline_quantized.compressed_tensors import IntQuantized, PackQuantized
from hookline_quantized.gptq import Gptq
from hookline_quantized.unpacked import CheckpointFormat

_BITS = (4, 8)
Entries = Mapping[str, object]


def checkpoint_format(model: str, entries: Entries) -> CheckpointFormat:
    """Returns the format of a checkpoint with quantized weights.

    Args:
        model: The model's name, for errors.
        entries: What config.json says of them; their method is among `_READERS`.

    Raises:
        ModelLoadError: Hookline does not read this variant of the format.
    """
    return _READERS[str(entries["quant_method"])](model, entries)


def _gptq(model: str, config: Entries) -> Gptq:
    version = config.get("checkpoint_format", "gptq")
    if version not in {"gptq", "gptq_v2"}:
        raise ModelLoadError(model, f"its GPTQ weights have the format {version!r}")
    bits = _bits(model, config.get("bits"))
    return Gptq(bits, zero_offset=0 if version == "gptq_v2" else 1)


def _awq(model: str, config: Entries) -> Awq:
    bits = config.get("bits", config.get("w_bit"))
    version = str(config.get("version", "gemm")).lower()
    if bits != 4 or version != "gemm":
        raise ModelLoadError(
            model,
            f"its AWQ weights have {bits} bits and version {version!r}; Hookline reads "
            "4 bits of version 'gemm'",
        )
    return Awq()


def _compressed_tensors(model: str, config: Entries) -> CheckpointFormat:
    groups = config.get("config_groups")
    groups = groups if isinstance(groups, dict) else {}
    schemes = [group for group in groups.values() if isinstance(group, dict)]
    weights = [scheme.get("weights") for scheme in schemes]
    if not weights or not all(isinstance(each, dict) for each in weights):
        raise ModelLoadError(model, "its compressed tensors have no scheme of weights")
    kinds = [each for each in weights if isinstance(each, dict)]
    bits = {each.get("num_bits") for each in kinds}
    if any(scheme.get("input_activations") for scheme in schemes):
        raise ModelLoadError(
            model, "its activations are quantized, too; Hookline quantizes weights only"
        )
    if len(bits) != 1 or any(each.get("type", "int") != "int" for each in kinds):
        raise ModelLoadError(
            model, "its compressed tensors are not integers of one number of bits"
        )
    number, layout = _bits(model, bits.pop()), config.get("format")
    if layout == "pack-quantized":
        return PackQuantized(number)
    if layout in {"int-quantized", "naive-quantized"}:
        return IntQuantized(number)
    raise ModelLoadError(
        model,
        f"its compressed tensors have the format {layout!r}; Hookline reads "
        "pack-quantized, int-quantized and naive-quantized",
    )


def _bits(model: str, bits: object) -> int:
    if bits not in _BITS or not isinstance(bits, int):
        raise ModelLoadError(
            model, f"its weights have {bits!r} bits; Hookline reads 4 and 8"
        )
    return bits


_READERS: Mapping[str, Callable[[str, Entries], CheckpointFormat]] = {
    "gptq": _gptq,
    "awq": _awq,
    "compressed-tensors": _compressed_tensors,
}

"""Reads which format `config.json` says that a checkpoint's weights have."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hookline.exceptions import ModelLoadError
from hookline_quantized.awq import Awq
from hookline_quantized.compressed_tensors import BITS, IntQuantized, PackQuantized
from hookline_quantized.floats import Block, FloatWeights
from hookline_quantized.gptq import Gptq
from hookline_quantized.unpacked import CheckpointFormat

Entries = Mapping[str, object]

_PACKED = "pack-quantized"
_LAYOUTS = (_PACKED, "int-quantized", "naive-quantized", "float-quantized")
"""Formats of compressed-tensors that are read."""
_ALGORITHMS = ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO")
"""Those of ModelOpt that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFormat:
    """How a checkpoint's weights are stored.

    Attributes:
        name: Name of the method.
        integers: Layouts of layers whose integers kernels read.
        floats: Layers of 8-bit floats; None if the format has none.
        is_mxfp4: Experts are in MXFP4.
        has_activations: The scheme quantizes activations, too.
    """

    name: str
    integers: tuple[CheckpointFormat, ...] = ()
    floats: FloatWeights | None = None
    is_mxfp4: bool = False
    has_activations: bool = False


def checkpoint_format(model: str, entries: Entries) -> FoundFormat:
    """Returns the format of a checkpoint with quantized weights.

    Args:
        model: The model's name, for errors.
        entries: What config.json says of them; their method is among `_READERS`.

    Raises:
        ModelLoadError: Hookline does not read this variant of the format.
    """
    return _READERS[str(entries["quant_method"])](model, entries)


def _gptq(model: str, config: Entries) -> FoundFormat:
    version = config.get("checkpoint_format", "gptq")
    if version not in {"gptq", "gptq_v2"}:
        raise ModelLoadError(model, f"its GPTQ weights have the format {version!r}")
    bits = config.get("bits")
    if bits not in BITS or not isinstance(bits, int):
        raise ModelLoadError(
            model, f"its weights have {bits!r} bits; Hookline reads 4 and 8"
        )
    layout = Gptq(bits, zero_offset=0 if version == "gptq_v2" else 1)
    return FoundFormat(name="gptq", integers=(layout,))


def _awq(model: str, config: Entries) -> FoundFormat:
    bits = config.get("bits", config.get("w_bit"))
    version = str(config.get("version", "gemm")).lower()
    if bits != 4 or version != "gemm":
        raise ModelLoadError(
            model,
            f"its AWQ weights have {bits} bits and version {version!r}; Hookline reads "
            "4 bits of version 'gemm'",
        )
    return FoundFormat(name="awq", integers=(Awq(),))


def _mxfp4(_model: str, _config: Entries) -> FoundFormat:
    return FoundFormat(name="mxfp4", is_mxfp4=True)


def _floats(_model: str, config: Entries) -> FoundFormat:
    """DeepSeek's, Qwen's and AutoFP8's `fp8`, and `fbgemm_fp8`."""
    blocks = _blocks(config.get("weight_block_size"))
    return FoundFormat(
        name=str(config["quant_method"]),
        floats=FloatWeights(blocks=blocks),
        has_activations=True,
    )


def _modelopt(model: str, config: Entries) -> FoundFormat:
    algorithm = config.get("quant_algo")
    if algorithm not in _ALGORITHMS:
        raise ModelLoadError(
            model,
            f"its ModelOpt weights have the algorithm {algorithm!r}; Hookline reads "
            f"{', '.join(_ALGORITHMS)}",
        )
    return FoundFormat(
        name="modelopt",
        floats=FloatWeights(blocks=((128, 128),)),
        has_activations=algorithm != "FP8_PB_WO",
    )


def _compressed_tensors(model: str, config: Entries) -> FoundFormat:
    """Layers of several groups may differ; what is stored tells which is which."""
    _refuse_unread(model, config)
    blocks: list[Block] = []
    bits, kinds, has_activations = {0}, set[str](), False
    for name, group in _groups(model, config).items():
        weights = group.get("weights")
        if not isinstance(weights, dict):
            raise ModelLoadError(
                model, "its compressed tensors have no scheme of weights"
            )
        layout = group.get("format") or config.get("format")
        if layout not in _LAYOUTS:
            raise ModelLoadError(
                model,
                f"its compressed tensors have the format {layout!r}; Hookline reads "
                f"{', '.join(_LAYOUTS)}",
            )
        kind = (weights.get("type", "int"), weights.get("num_bits"))
        if kind not in {("int", 4), ("int", 8), ("float", 8)}:
            raise ModelLoadError(
                model,
                f"its compressed tensors' {name} has {kind[0]} weights of {kind[1]!r} "
                "bits; Hookline reads int of 4 and 8, and float of 8",
            )
        kinds.add(kind[0])
        bits.add(kind[1] if kind[0] == "int" and layout != _PACKED else 0)
        blocks += _blocks(weights.get("block_structure"))
        has_activations |= bool(group.get("input_activations"))
    return FoundFormat(
        name="compressed-tensors",
        integers=(PackQuantized(), IntQuantized(max(bits) or 8))
        if "int" in kinds
        else (),
        floats=FloatWeights(blocks=tuple(blocks)) if "float" in kinds else None,
        has_activations=has_activations,
    )


def _groups(model: str, config: Entries) -> dict[str, Entries]:
    found = config.get("config_groups")
    groups = found if isinstance(found, dict) else {}
    schemes = {str(name): each for name, each in groups.items()}
    if not schemes or not all(isinstance(each, dict) for each in schemes.values()):
        raise ModelLoadError(model, "its compressed tensors have no scheme of weights")
    return schemes


def _refuse_unread(model: str, config: Entries) -> None:
    """Raises `ModelLoadError` for what changes weights besides their numbers."""
    sparsity = config.get("sparsity_config")
    sparse = sparsity.get("format") if isinstance(sparsity, dict) else None
    if sparse not in {None, "dense"}:
        raise ModelLoadError(
            model, f"its compressed tensors are sparse ({sparse}), which is not read"
        )
    transform = config.get("transform_config")
    if isinstance(transform, dict) and transform.get("config_groups"):
        raise ModelLoadError(
            model,
            "its compressed tensors have a transform_config (rotations), which is "
            "not supported",
        )


def _blocks(named: object) -> tuple[Block, ...]:
    """Returns a block's size, if it is given."""
    sizes = named.split("x") if isinstance(named, str) else named
    if not isinstance(sizes, list) or len(sizes) != 2:
        return ()
    rows, columns = (int(each) if str(each).isdecimal() else 0 for each in sizes)
    return ((rows, columns),) if rows and columns else ()


_READERS: Mapping[str, Callable[[str, Entries], FoundFormat]] = {
    "awq": _awq,
    "compressed-tensors": _compressed_tensors,
    "fbgemm_fp8": _floats,
    "fp8": _floats,
    "gptq": _gptq,
    "modelopt": _modelopt,
    "mxfp4": _mxfp4,
}

"""What happens to quantized checkpoints where no distribution reads them."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hookline import ModelLoadError
from hookline.config import ModelConfig
from hookline_description.describing import describe
from hookline_models.checkpoints.loading import load_model
from hookline_testing import PluginSite
from hookline_testing.mxfp4_checkpoints import make_mxfp4_checkpoints
from hookline_testing.oracle import make_oracle
from hookline_testing.quantized_checkpoints import LAYOUTS, quantize

E4M3 = torch.float8_e4m3fn
OTHER = """
from hookline import hookimpl

@hookimpl
def create_quantization_method(context):
    return None
"""


@pytest.fixture
def _left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """No distribution has a quantization method."""
    monkeypatch.setattr("hookline_models.quantization.all_installed", lambda _: ())


def load(folder: Path, cache_dtype: torch.dtype | None = None, **model: object) -> None:
    config = ModelConfig(model=str(folder), **model)  # type: ignore[arg-type]
    load_model(
        config, describe(config), 256, may_compile=False, cache_dtype=cache_dtype
    )


@pytest.mark.usefixtures("_left_out")
@pytest.mark.parametrize("name", ["awq", "gptq", "pack-quantized"])
def test_a_quantized_checkpoint_is_refused(name: str, tmp_path: Path) -> None:
    """The error names its method and the distribution to install."""
    layout = LAYOUTS[name]
    quantize(make_oracle("llama", tmp_path), tmp_path, layout)

    with pytest.raises(ModelLoadError, match="needs hookline-quantized") as error:
        load(tmp_path)

    assert repr(layout.config["quant_method"]) in str(error.value)
    assert "pip install hookline-quantized" in str(error.value)


@pytest.mark.usefixtures("_left_out")
def test_experts_in_mxfp4_are_refused(tmp_path: Path) -> None:
    """So are they, and the same numbers in float32 are read."""
    packed, plain = make_mxfp4_checkpoints(tmp_path)

    load(plain)
    with pytest.raises(ModelLoadError, match=r"'mxfp4'.* needs hookline-quantized"):
        load(packed)


@pytest.mark.usefixtures("_left_out")
def test_the_option_is_refused(tmp_path: Path) -> None:
    """The error says which value needs what."""
    make_oracle("llama", tmp_path)

    with pytest.raises(
        ModelLoadError, match="--quantization w8a16 needs hookline-quantized"
    ):
        load(tmp_path, quantization="w8a16")


@pytest.mark.usefixtures("_left_out")
def test_scales_are_refused_where_they_would_be_used(tmp_path: Path) -> None:
    """A cache without 8 bits has no use for them."""
    make_oracle("llama", tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    state["model.layers.0.self_attn.k_scale"] = torch.tensor(3.0)
    save_file(state, tmp_path / "model.safetensors")

    load(tmp_path)
    with pytest.raises(ModelLoadError, match=r"scales .* need hookline-quantized"):
        load(tmp_path, E4M3)


def test_a_method_that_is_installed_is_found_by_its_name(tmp_path: Path) -> None:
    """Any distribution may have one; it has to make something."""
    folder = tmp_path / "model"
    make_oracle("llama", folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["quantization_config"] = {"quant_method": "ternary"}
    (folder / "config.json").write_text(json.dumps(config))
    site = tmp_path / "site"
    site.mkdir()

    with PluginSite(site) as plugins:
        plugins.install("ternary", OTHER, group="hookline.quantization_methods")
        with pytest.raises(ModelLoadError, match="'ternary' makes no quantization"):
            load(folder)

"""Heads are read in the format in which they are published, and written in it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from hookline.exceptions import ConfigError
from hookline_medusa.checkpoint import load_heads, save_heads
from hookline_medusa.heads import Head, SharedOutput, likeliest
from hookline_testing.running_pickle import running_pickle

MakeHeads = Callable[..., tuple[Head, ...]]


class PublishedBlock(nn.Module):
    """As the Medusa project describes it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = values + nn.functional.silu(self.linear(values))
        return found


def published(heads: int, layers: int) -> nn.ModuleList:
    """A module whose state dict has the names and shapes of published heads."""
    torch.manual_seed(3)
    return nn.ModuleList(
        nn.Sequential(
            *(PublishedBlock(64) for _ in range(layers)),
            nn.Linear(64, 320, bias=False),
        )
        for _ in range(heads)
    )


def write(folder: Path, module: nn.Module, config: dict[str, object]) -> None:
    folder.mkdir()
    torch.save(module.state_dict(), folder / "medusa_lm_head.pt")
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("layers", [1, 2])
def test_published_heads_guess_what_their_modules_guess(
    layers: int, tmp_path: Path
) -> None:
    """Weights saved by torch, by the published names, compute the same tokens."""
    module = published(3, layers)
    write(tmp_path / "a", module, {"medusa_num_heads": 3, "medusa_num_layers": layers})
    hidden = torch.randn(50, 64)

    heads = load_heads(tmp_path / "a")

    with torch.no_grad():
        expected = torch.stack([head(hidden).argmax(-1) for head in module])
        assert torch.equal(likeliest(heads, None, hidden), expected)


def test_weights_override_the_configs_number_of_heads(tmp_path: Path) -> None:
    """Published heads come with `medusa_num_heads` 2 where there are five."""
    write(tmp_path / "a", published(5, 1), {"medusa_num_heads": 2})

    assert len(load_heads(tmp_path / "a")) == 5


@pytest.mark.parametrize("own_output", [True, False])
def test_heads_survive_a_round_trip(
    own_output: bool, tmp_path: Path, make_heads: MakeHeads
) -> None:
    """In bfloat16, by the published names, each tensor once."""
    heads = make_heads(2, layers=2, own_output=own_output)

    save_heads(tmp_path / "a", heads, "target")
    found = load_heads(tmp_path / "a")

    names = set(load_file(tmp_path / "a" / "medusa_lm_head.safetensors"))
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    hidden = torch.randn(50, 64)
    shared = SharedOutput(torch.randn(320, 64), None)
    assert ("1.2.weight" in names) == own_output
    assert {"0.0.linear.weight", "1.1.linear.bias"} <= names
    assert (config["medusa_num_heads"], config["medusa_num_layers"]) == (2, 2)
    again = [head.to(hidden) for head in found]
    expected = likeliest(heads, shared, hidden)
    assert torch.equal(likeliest(again, shared, hidden), expected)


def heads_of(tensors: dict[str, torch.Tensor], folder: Path, **config: object) -> Path:
    folder.mkdir()
    save_file(tensors, folder / "medusa_lm_head.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def one(**more: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"0.0.linear.weight": torch.zeros(4, 4), **more}


WRONG: dict[str, tuple[dict[str, torch.Tensor], dict[str, object], str]] = {
    "another part": (one(**{"0.0.bias": torch.zeros(4)}), {}, "0.0.bias does not"),
    "a gap": (one(**{"2.0.linear.weight": torch.zeros(4, 4)}), {}, "head 1 is not"),
    "no block": ({"0.0.weight": torch.zeros(9, 4)}, {}, "head 0 is not"),
    "a block behind": (
        one(**{"0.2.linear.weight": torch.zeros(4, 4)}),
        {},
        "head 0 is not",
    ),
    "fewer heads": (one(), {"medusa_num_heads": 2}, "medusa_num_heads is 2 in"),
    "fewer blocks": (one(), {"medusa_num_layers": 3}, "medusa_num_layers is 3 in"),
    "empty": ({}, {}, "is empty"),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_weights_are_one_clear_error(name: str, tmp_path: Path) -> None:
    """The error names a tensor that does not fit."""
    tensors, config, reason = WRONG[name]
    folder = heads_of(tensors, tmp_path / "a", **config)

    with pytest.raises(ConfigError, match=reason) as caught:
        load_heads(folder)

    assert caught.value.option == "speculative-config"


def test_damaged_and_hostile_files_are_one_clear_error(tmp_path: Path) -> None:
    """Missing weights, cut ones, and a pickle that would run code."""
    folder = tmp_path / "a"
    folder.mkdir()
    with pytest.raises(ConfigError, match=r"config\.json cannot be read"):
        load_heads(folder)
    (folder / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="neither medusa_lm_head"):
        load_heads(folder)
    (folder / "medusa_lm_head.pt").write_bytes(running_pickle())
    with pytest.raises(ConfigError, match="cannot be read"):
        load_heads(folder)
    (folder / "medusa_lm_head.safetensors").write_bytes(b"short")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_heads(folder)

"""Models of a hub that are GGUF files: one quantization of several is downloaded."""

import json
from pathlib import Path
from typing import Any

import pytest
from gguf import GGMLQuantizationType as Kind
from transformers import LlamaConfig

from hookline.config import EngineConfig
from hookline.exceptions import ModelLoadError
from hookline_description.locating import located
from hookline_hub.gguf_files import quants
from hookline_server.cli import main
from hookline_testing.fake_hub import COMMIT, FakeHub, FakeRepo
from hookline_testing.gguf_files import GgufFile

REPO = "maker/tiny-GGUF"
OTHERS = {
    "tiny-Q8_0-00001-of-00002.gguf": b"first",
    "tiny-Q8_0-00002-of-00002.gguf": b"second part",
    "mmproj-F16.gguf": b"eyes",
    "README.md": b"# tiny",
    "config.json": b"{}",
}


@pytest.fixture(autouse=True)
def descriptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "descriptions"))


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    """A small model's file."""
    sizes: dict[str, Any] = {
        "vocab_size": 320,
        "hidden_size": 32,
        "intermediate_size": 32,
    }
    heads: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 2}
    config = LlamaConfig(
        **sizes, **heads, num_hidden_layers=1, max_position_embeddings=64
    )
    return GgufFile(tmp_path, config, Kind.F32).write().read_bytes()


def config_of(name: str, cache: Path, **options: object) -> EngineConfig:
    return EngineConfig.from_options(model=name, download_dir=str(cache), **options)


def snapshot(cache: Path) -> Path:
    return cache / "models--maker--tiny-GGUF" / "snapshots" / COMMIT


def names_in(cache: Path) -> list[str]:
    return sorted(each.name for each in snapshot(cache).rglob("*.*"))


def test_quantizations_are_told_by_the_names_of_files() -> None:
    """In folders or not, split or not, of several makers; others' are left out."""
    paths = [
        *("a-Q4_K_M.gguf", "a.Q8_0.gguf", "a-UD-Q4_K_XL.gguf", "a-bf16.gguf"),
        *("IQ2_XXS/a-IQ2_XXS-00002-of-00002.gguf", "mmproj-a-F16.gguf"),
        *(
            "IQ2_XXS/a-IQ2_XXS-00001-of-00002.gguf",
            "a.md",
            "plain.gguf",
            "imatrix_a.gguf",
        ),
    ]
    found = quants(paths)

    assert set(found) == {
        *("Q4_K_M", "Q8_0", "UD-Q4_K_XL", "BF16", "IQ2_XXS", "plain"),
    }
    assert found["IQ2_XXS"] == [paths[6], paths[4]]
    assert set(quants(["a-Q8_0.gguf", "b-Q8_0.gguf"])) == {"a-Q8_0", "b-Q8_0"}


def test_a_quantization_is_downloaded_alone(
    hub: FakeHub, cache: Path, content: bytes
) -> None:
    """It is described as a file of this machine, and served by what was typed."""
    hub.repos[REPO] = FakeRepo({"tiny-Q4_K_M.gguf": content, **OTHERS})

    model = located(config_of(f"{REPO}:q4_k_m", cache)).model
    asked = len(hub.asked)
    again = located(config_of(f"{REPO}:Q4_K_M", cache)).model
    only = located(config_of(REPO, cache)).model
    tokenizer = located(config_of("demo", cache, tokenizer=REPO)).model.tokenizer

    assert json.loads(Path(model.model, "config.json").read_text())["vocab_size"] == 320
    assert model.model == again.model == only.model == tokenizer
    assert (model.served_name, only.served_name) == (f"{REPO}:q4_k_m", REPO)
    assert names_in(cache) == ["tiny-Q4_K_M.gguf"]
    assert len(hub.asked) == asked


def test_several_need_a_name_and_one_does_not(
    hub: FakeHub, cache: Path, content: bytes
) -> None:
    """The sentence lists what there is; so does the one for a wrong name."""
    hub.repos[REPO] = FakeRepo({"tiny-Q4_K_M.gguf": content, **OTHERS})

    with pytest.raises(ModelLoadError, match=r"several .*name one.*Q4_K_M, Q8_0\)"):
        located(config_of(REPO, cache))
    with pytest.raises(ModelLoadError, match=r"no GGUF file Q2_K \(.*Q4_K_M, Q8_0\)"):
        located(config_of(f"{REPO}:Q2_K", cache))
    with pytest.raises(ModelLoadError, match=r"is not whole in .*no hub is asked"):
        located(config_of(f"{REPO}:Q4_K_M", cache, offline=True))
    assert not cache.exists()
    hub.repos[REPO] = FakeRepo({"tiny-Q4_K_M.gguf": content, "README.md": b""})

    model = located(config_of(REPO, cache)).model

    assert Path(model.model, "config.json").is_file()


def test_safetensors_come_first_without_a_name(hub: FakeHub, cache: Path) -> None:
    """A repository with both is the model as it was published."""
    texts = {"config.json": b"{}", "tokenizer.json": b"{}"}
    hub.repos[REPO] = FakeRepo({**texts, "model.safetensors": b"x", "a-F16.gguf": b"y"})

    model = located(config_of(REPO, cache)).model

    assert model.model == str(snapshot(cache))
    assert "a-F16.gguf" not in names_in(cache)


def test_nothing_is_downloaded_that_cannot_be_read(
    hub: FakeHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its plugin the sentence says what to install."""
    hub.repos[REPO] = FakeRepo(OTHERS)
    monkeypatch.setenv("HOOKLINE_PLUGINS", "no:gguf")

    with pytest.raises(ModelLoadError, match="need hookline-gguf"):
        located(config_of(f"{REPO}:Q8_0", cache))


def test_models_treats_a_quantization_as_a_model(
    hub: FakeHub, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is pulled with all its parts, listed, and removed without the others."""
    hub.repos[REPO] = FakeRepo({"tiny-Q4_K_M.gguf": b"only", **OTHERS})
    there = ["--download-dir", str(cache)]

    for quant in ("Q8_0", "Q4_K_M"):
        assert main(["models", "pull", f"{REPO}:{quant}", *there]) == 0
    pulled = capsys.readouterr().out.split()
    assert names_in(cache) == sorted([*list(OTHERS)[:2], "tiny-Q4_K_M.gguf"])
    assert main(["models", "list", *there]) == 0
    assert main(["models", "rm", f"{REPO}:Q8_0", *there]) == 0
    assert main(["models", "rm", f"{REPO}:Q8_0", *there]) == 1

    assert pulled == [
        str(snapshot(cache) / "tiny-Q8_0-00001-of-00002.gguf"),
        str(snapshot(cache) / "tiny-Q4_K_M.gguf"),
    ]
    output = capsys.readouterr()
    assert "whole, Q4_K_M, Q8_0\n" in output.out
    assert f"removed {REPO}:Q8_0, 16 bytes\n" in output.out
    assert f"has no {REPO}:Q8_0" in output.err
    assert names_in(cache) == ["tiny-Q4_K_M.gguf"]
    assert (snapshot(cache) / "tiny-Q4_K_M.gguf").read_bytes() == b"only"

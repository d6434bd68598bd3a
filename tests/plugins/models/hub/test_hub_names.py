"""Names of models: a folder, an installed model, the cache, a hub, in this order."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError, ModelLoadError
from hookline_demo_model import folder as demo_folder
from hookline_description.locating import located
from hookline_hub.names import HubName
from hookline_hub.needed import needed
from hookline_hub.progress import line
from hookline_server.cli import main
from hookline_testing.fake_hub import COMMIT, FakeHub, FakeRepo, Fault
from hookline_testing.hub_models import (
    NAME,
    pull_tiny,
    serve_tiny,
    snapshot_in,
)
from hookline_testing.server_process import serving

OTHER = "b" * 40
"""Another commit."""


def config_of(model: str, cache: Path, **options: object) -> EngineConfig:
    return EngineConfig.from_options(model=model, download_dir=str(cache), **options)


def test_ids_are_read_with_their_revision() -> None:
    """An id has one slash; a revision stands behind @ or in the option, not in both."""
    assert HubName.parse("org/name") == HubName("org/name", "main")
    assert HubName.parse("org/name@refs/pr/1") == HubName("org/name", "refs/pr/1")
    assert HubName.parse("org/name", "v1") == HubName("org/name", "v1")
    assert HubName.parse("org/name@v1:Q4_K_M") == HubName("org/name", "v1", "Q4_K_M")
    assert str(HubName.parse("org/name:Q4_K_M")) == "org/name:Q4_K_M"
    for other in ("org/name:", "org/name:a/b", "org/name:Q8_0@v1"):
        assert HubName.parse(other) is None
    for other in (
        "demo",
        "./org/name",
        "/org/name",
        "a/b/c",
        "../name",
        "org/",
    ):
        assert HubName.parse(other) is None
    for wrong in ("../../x", "/etc", "a b", "-x"):
        with pytest.raises(ConfigError, match="revision"):
            HubName.parse("org/name", wrong)
    with pytest.raises(ConfigError, match="revision"):
        HubName.parse("org/name@v1", "v2")


def test_what_is_needed_of_a_repository() -> None:
    """Weights once, texts, poolings and named templates; nothing that could run."""
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    texts = [
        *("1_Pooling/config.json", "additional_chat_templates/tool_use.jinja"),
        *("config.json", "merges.txt", "model.safetensors.index.json"),
        *("modules.json", "tokenizer.model"),
    ]
    others = [
        *("consolidated.safetensors", "pytorch_model.bin", "model.py", "x.gguf"),
        *("onnx/model.onnx", "original/params.json", ".cache/config.json", "README.md"),
        *("../config.json", "/config.json", "a//config.json", "training_args.bin"),
    ]

    assert needed([*others, *texts, *shards], weights=True) == [*sorted(texts), *shards]
    assert needed([*others, *texts, *shards], weights=False) == sorted(texts)
    assert needed(["model.safetensors", *shards], weights=True) == ["model.safetensors"]


def test_a_hub_is_asked_once_and_then_the_cache(hub: FakeHub, cache: Path) -> None:
    """The model keeps its id in the API; the second start asks nobody."""
    serve_tiny(hub)

    config = located(config_of(NAME.repo, cache))
    asked = len(hub.asked)
    again = located(config_of(f"{NAME.repo}@{COMMIT}", cache, revision=COMMIT))

    assert config.model.model == again.model.model == str(snapshot_in(cache))
    assert config.model.served_name == again.model.served_name == NAME.repo
    assert len(hub.asked) == asked
    named = config_of(NAME.repo, cache, served_model_name="mine")
    assert located(named).model.served_name == "mine"


def test_folders_and_installed_models_come_first(
    hub: FakeHub, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of the name of an id, or of an installed model, is what is meant."""
    monkeypatch.chdir(tmp_path)
    for name in (NAME.repo, "demo"):
        Path(name).mkdir(parents=True)
        Path(name, "config.json").write_text("{}")
    Path("maker/broken").mkdir()
    for name in (NAME.repo, "demo", "maker/broken", "unknown", str(demo_folder())):
        assert located(config_of(name, cache)).model.model == name

    assert not hub.asked


def test_a_folder_of_the_cache_is_its_snapshot(hub: FakeHub, cache: Path) -> None:
    """Who names the model's folder there gets the files of main."""
    serve_tiny(hub)
    pull_tiny(hub, cache)

    config = located(
        EngineConfig.from_options(model=str(snapshot_in(cache).parents[1]))
    )

    assert config.model.model == str(snapshot_in(cache))
    assert config.model.served_name == NAME.repo


def test_offline_only_the_cache_is_used(
    hub: FakeHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a whole copy it is one sentence; HF_HUB_OFFLINE means the same."""
    serve_tiny(hub)
    with pytest.raises(ModelLoadError, match=r"is not whole in .*no hub is asked"):
        located(config_of(NAME.repo, cache, offline=True))
    with monkeypatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(ModelLoadError, match="no hub is asked"):
            located(config_of(NAME.repo, cache))
    assert not hub.asked
    pull_tiny(hub, cache)

    config = located(config_of(NAME.repo, cache, offline=True))

    assert config.model.model == str(snapshot_in(cache))


def test_what_others_left_half_is_completed(hub: FakeHub, cache: Path) -> None:
    """A snapshot with the configuration alone, as of another program, is no model."""
    serve_tiny(hub)
    pull_tiny(hub, cache)
    (snapshot_in(cache) / "model.safetensors").unlink()

    located(config_of(NAME.repo, cache))

    assert (snapshot_in(cache) / "model.safetensors").is_file()


def test_tokenizers_and_drafts_are_found_as_well(hub: FakeHub, cache: Path) -> None:
    """They are not the model's revision, and a tokenizer brings no weights."""
    serve_tiny(hub)
    draft = {"method": "ngram", "model": NAME.repo}
    config = config_of("demo", cache, tokenizer=NAME.repo, revision="v9")

    found = located(config)

    assert found.model.model == "demo"
    assert found.model.tokenizer == str(snapshot_in(cache))
    assert not (snapshot_in(cache) / "model.safetensors").exists()
    found = located(config_of("demo", cache, speculative_config=draft))
    assert found.speculative == {**draft, "model": str(snapshot_in(cache))}
    assert (snapshot_in(cache) / "model.safetensors").is_file()


def test_a_tokenizer_may_have_a_revision_of_its_own(hub: FakeHub, cache: Path) -> None:
    """That of --tokenizer, or the model's own at another revision."""
    serve_tiny(hub).commits = {"main": COMMIT, "v2": OTHER}
    other = snapshot_in(cache).with_name(OTHER)

    own = located(config_of(NAME.repo, cache, tokenizer_revision="v2")).model
    named = located(
        config_of("demo", cache, tokenizer=NAME.repo, tokenizer_revision="v2")
    ).model

    assert (own.model, own.tokenizer) == (str(snapshot_in(cache)), str(other))
    assert (named.model, named.tokenizer) == ("demo", str(other))
    assert not (other / "model.safetensors").exists()


def test_dummy_weights_are_not_downloaded(hub: FakeHub, cache: Path) -> None:
    """With --load-format dummy only the texts are."""
    serve_tiny(hub)

    located(config_of(NAME.repo, cache, load_format="dummy"))

    assert not hub.begins("model.safetensors")
    assert (snapshot_in(cache) / "config.json").is_file()


def test_models_are_pulled_listed_and_removed(
    hub: FakeHub, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`hookline models` does what its three words say."""
    serve_tiny(hub)
    there = ["--download-dir", str(cache)]

    assert main(["models", "pull", NAME.repo, *there]) == 0
    assert capsys.readouterr().out.strip() == str(snapshot_in(cache))
    assert main(["models", "list", *there]) == 0
    listed = capsys.readouterr().out
    assert main(["models", "rm", NAME.repo, *there]) == 0
    removed = capsys.readouterr().out
    assert main(["models", "rm", NAME.repo, *there]) == 1

    [row] = [line for line in listed.splitlines() if NAME.repo in line]
    assert row.split() == [NAME.repo, "main", COMMIT[:8], "3.1", "MB", "whole"]
    assert "demo" in listed
    assert removed == "removed maker/tiny, 3.1 MB\n"
    assert "has no maker/tiny" in capsys.readouterr().err
    assert [each.name for each in cache.iterdir()] == [".locks"]


def test_a_line_of_progress_has_sizes_share_and_speed() -> None:
    """It is what a terminal and the log show."""
    shown = line("org/name", 1_503_300_000, 312_000_000, 45_200_000)

    assert shown == "downloading org/name: 312.0 MB of 1.5 GB (20 %), 45.2 MB/s"


@pytest.mark.slow
def test_a_server_serves_a_model_of_a_hub(hub: FakeHub, cache: Path) -> None:
    """One process downloads it for all, while the server says that it is loading."""
    files = [each for each in demo_folder().iterdir() if each.is_file()]
    hub.repos["maker/demo"] = FakeRepo({each.name: each.read_bytes() for each in files})
    go_on = threading.Event()
    hub.fail("model.safetensors", Fault(sends=1_000_000, waits=go_on))
    environment = {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_CACHE": str(cache),
        "HF_HUB_DOWNLOAD_TIMEOUT": "120",
    }
    options = ("--port=0", "--api-server-count=2", "--max-model-len=128")
    with serving(
        "maker/demo",
        *options,
        environment=environment,
        is_awaited=False,
        is_forked=False,
    ) as server:
        server.wait_until_listening()
        loading, text = server.get("/v1/models")
        go_on.set()
        server.wait_until_ready()
        asked = [each.path for each in hub.asked]
        models = json.loads(server.get("/v1/models")[1])["data"]

    assert (loading, "is loading" in text) == (503, True)
    assert [each["id"] for each in models] == ["maker/demo"]
    assert len(asked) == len(set(asked))


@pytest.mark.slow
def test_the_help_imports_no_hub() -> None:
    """What the options need is cheap."""
    code = (
        "import sys; from hookline_server.cli import main; main(['--help']); "
        "assert 'huggingface_hub' not in sys.modules; main(['serve', '--help'])"
    )
    command = [sys.executable, "-c", f"{code}; assert 'httpx2' not in sys.modules"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.stderr == ""

"""Names of clients lead to adapters below one folder, and nowhere else."""

from pathlib import Path

import pytest

from hookline_lora.exceptions import AdapterError
from hookline_lora.files.paths import find_adapter, resolve_adapter_path
from hookline_testing.adapters import decoder_shapes, make_adapter

SHAPES = decoder_shapes(layers=1)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    make_adapter(tmp_path / "adapters" / "team" / "sql", SHAPES)
    make_adapter(tmp_path / "adapters" / "legal", SHAPES)
    make_adapter(tmp_path / "other", SHAPES)
    (tmp_path / "adapters" / "out").symlink_to(tmp_path / "other")
    (tmp_path / "adapters" / "again").symlink_to(tmp_path / "adapters" / "legal")
    (tmp_path / "adapters" / "empty").mkdir()
    return tmp_path / "adapters"


def test_names_and_paths_below_are_found(directory: Path) -> None:
    """Relative to the folder, absolute, and through a link that stays inside."""
    for name in ("legal", "./legal", "again", str(directory / "legal")):
        assert resolve_adapter_path(directory, name) == directory / "legal"
    found = resolve_adapter_path(str(directory), "team/sql")
    assert found == directory / "team" / "sql"


@pytest.mark.parametrize(
    "name",
    [
        *("..", "../other", "team/../../other", "legal/../legal", "/etc", "out", "."),
        *("", "/", "a\0b", "a\nb", "x" * 300, "x/" * 3000, "~", "empty", "missing"),
        *("legal/adapter_config.json", "//etc/passwd", "demo:", "demo:../pirate"),
        *("demo:missing", "\udcff"),
    ],
)
def test_other_names_are_refused(directory: Path, name: str) -> None:
    """By the one kind of error."""
    with pytest.raises(AdapterError):
        resolve_adapter_path(directory, name)


def test_links_and_steps_up_lead_out(directory: Path) -> None:
    """The error says so, and not whether there is anything."""
    for name in ("out", "../other", "../nothing", "/etc/passwd"):
        with pytest.raises(AdapterError, match="leads out of the folder"):
            resolve_adapter_path(directory, name)


def test_without_a_folder_clients_load_nothing() -> None:
    """The error names the option."""
    with pytest.raises(AdapterError, match="only from below --lora-dir"):
        resolve_adapter_path(None, "legal")


def test_a_command_line_names_any_folder(directory: Path) -> None:
    """It is the operator's."""
    assert find_adapter(str(directory / "out")) == directory / "out"
    with pytest.raises(AdapterError, match=r"no folder with adapter_config\.json"):
        find_adapter(str(directory))


def test_the_demo_model_brings_an_adapter(directory: Path) -> None:
    """By a name that no folder has; a client may use it, too."""
    found = find_adapter("demo:pirate")

    assert (found / "adapter_model.safetensors").is_file()
    assert resolve_adapter_path(None, "demo:pirate") == found
    assert resolve_adapter_path(directory, "demo:pirate") == found

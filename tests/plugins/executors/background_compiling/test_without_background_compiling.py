"""Without the distribution hookline-background-compiling, kernels come first."""

import pytest

from hookline_background_compiling.first_forward import first_forward
from hookline_models.building import _first_forward
from hookline_models.forwards.first_forward import final_forward
from hookline_server.cli import main


def test_worker_compiles_before_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed choice of the first forward pass is used, if it is allowed."""
    assert _first_forward() is first_forward

    monkeypatch.setenv("HOOKLINE_PLUGINS", "no:hookline-background-compiling")

    assert _first_forward() is final_forward


@pytest.mark.parametrize(
    "flag", ["--serve-while-compiling", "--no-serve-while-compiling"]
)
def test_its_option_names_the_distribution(
    flag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is one line."""
    monkeypatch.setenv("HOOKLINE_PLUGINS", "no:hookline-background-compiling")

    assert main(["generate", "--prompt=a", flag]) == 2

    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "requires the distribution hookline-background-compiling" in error

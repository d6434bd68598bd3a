"""What is installed with Hookline may be distributed with it."""

import pytest

from hookline_testing.release.licences import (
    EXCEPTIONS,
    PERMISSIVE,
    installed_with,
    refusal,
)


def test_all_that_is_installed_is_permissive() -> None:
    """Each dependency of each distribution that is installed here, with its extras."""
    found = installed_with(["hookline[gpu,otel]", "hookline-core"])

    assert len(found) > 40
    assert list(filter(None, (refusal(*each) for each in found.items()))) == []


def test_exceptions_are_still_needed() -> None:
    """Of what is installed; a new licence of theirs is looked at anew."""
    found = installed_with(["hookline[gpu,otel]", "requests"])

    assert {name: found[name] for name in EXCEPTIONS} == EXCEPTIONS


@pytest.mark.parametrize(
    ("licence", "is_taken"),
    [
        ("MIT", True),
        ("Apache-2.0 AND BSD-3-Clause", True),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-2.0-or-later", False),
        ("MIT AND (Apache-2.0 OR LGPL-3.0-only)", False),
        ("MPL-2.0", False),
        ("unknown", False),
        ("NVIDIA Proprietary Software", False),
    ],
)
def test_licences_that_ask_for_more_are_refused(licence: str, is_taken: bool) -> None:
    """One of several alternatives suffices; of several parts all count."""
    told = refusal("some-package", licence)

    assert (told == "") is is_taken
    assert is_taken or licence in told


def test_command_tells_what_it_refuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It lists all, ends with 1, and names the package and its licence."""
    from hookline_testing.release import __main__ as command  # noqa: PLC0415

    monkeypatch.setattr("sys.argv", ["release", "licences", "codespell", "pluggy"])

    assert command.main() == 1
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["codespell", "pluggy"]
    assert err.startswith("codespell: GPL-2.0-only")
    assert "GPL-2.0-only" not in PERMISSIVE

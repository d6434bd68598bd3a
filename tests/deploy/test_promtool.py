"""Prometheus's own tools accept the files in deploy/prometheus."""

import subprocess
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "command",
    [
        ("check", "rules", "recording_rules.yml", "alert_rules.yml"),
        ("check", "config", "prometheus.yml"),
        ("test", "rules", "alert_tests.yml"),
    ],
    ids=" ".join,
)
def test_promtool_finds_nothing(
    promtool: Path, rules_folder: Path, command: tuple[str, ...]
) -> None:
    """Rules and configuration are valid, and each alert fires when it is to fire."""
    done = subprocess.run(
        [promtool, *command],
        cwd=rules_folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout + done.stderr

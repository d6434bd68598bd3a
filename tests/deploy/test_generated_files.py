"""The files that follow from the catalogue, and the command that writes them."""

import subprocess
import sys
from pathlib import Path

from hookline_dashboards.files import generated_files

ROOT = Path(__file__).parents[2]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hookline_dashboards", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_files_are_fresh() -> None:
    """The repository has what the catalogue gives."""
    stale = [
        name
        for name, text in generated_files().items()
        if (ROOT / name).read_text("utf-8") != text
    ]

    assert stale == []


def test_written_files_pass_the_check(tmp_path: Path) -> None:
    """After the command has written its files, its check finds nothing."""
    missing = command("--check", str(tmp_path))
    written = command(str(tmp_path))
    fresh = command("--check", str(tmp_path))

    assert missing.returncode == 1
    assert missing.stdout.count("stale:") == len(generated_files())
    assert written.returncode == 0
    assert (fresh.returncode, fresh.stdout) == (0, "")


def test_check_names_the_stale_file(tmp_path: Path) -> None:
    """A file that was edited by hand is named, and left as it is."""
    command(str(tmp_path))
    edited = tmp_path / "deploy" / "prometheus" / "alert_rules.yml"
    edited.write_text("groups: []\n")

    done = command("--check", str(tmp_path))

    assert (done.returncode, done.stdout) == (1, f"stale: {edited}\n")
    assert edited.read_text() == "groups: []\n"

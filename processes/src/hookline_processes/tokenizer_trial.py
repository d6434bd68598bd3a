"""Refuses tokenizer files that harm the process that loads them."""

import signal
import subprocess
from pathlib import Path

from hookline_processes import tokenizer_probe
from hookline_processes.forked_children import no_forks
from hookline_processes.limits import small_environment
from hookline_processes.model_files import tokenizer_files_refusal
from hookline_processes.python import start_python

PROBE_SECONDS = 120.0
"""Time for the probe by the clock, however busy the machine is."""
MAX_TOKENIZER_BYTES = 512 * 2**20
MAX_REASON_LENGTH = 300


def tokenizer_refusal(folder: Path) -> str:
    """Loads and tries a folder's `tokenizer.json` in another process, if it has one.

    Returns:
        Why it is refused: it is damaged, exceeds a limit of time or memory, or lies
        elsewhere. Empty if it is not.
    """
    if reason := tokenizer_files_refusal(folder):
        return reason
    path = folder / "tokenizer.json"
    if not path.is_file():
        return ""
    if path.stat().st_size > MAX_TOKENIZER_BYTES:
        return f"tokenizer.json is larger than {MAX_TOKENIZER_BYTES >> 20} MiB"
    reason = _reason(path)
    return reason and f"its tokenizer.json is refused: {reason}"


def _reason(path: Path) -> str:
    with no_forks():  # a logger may fork a child, which would hold its pipes
        process = start_python(
            *(tokenizer_probe.__file__, path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            environment=small_environment(),
        )
    with process:
        try:
            said, errors = process.communicate(timeout=PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"it takes more than {PROBE_SECONDS:g} s to load and try"
    code = process.returncode
    if code == 0:
        return said.decode(errors="replace")
    if code == -signal.SIGPROF:
        return "loading and trying it takes too much processor time"
    if code < 0:
        name = signal.Signals(-code).name
        return f"loading or trying it ends the process ({name}); is it damaged?"
    lines = errors.decode(errors="replace").strip().splitlines()
    return lines[-1][:MAX_REASON_LENGTH] if lines else "it cannot be loaded"

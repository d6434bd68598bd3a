"""All benchmarks, one after the other: about a quarter of an hour on two cores.

usage: python benchmarks/run.py
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BENCHMARKS = (
    ("ready to serve the demo model", ["startup.py"]),
    ("against transformers", ["offline.py"]),
    ("cost of the loggers", ["offline.py", "--sides", "watched", "hookline"]),
    (
        "cost of the loggers where steps are shortest",
        ["offline.py", "--sides", "watched", "hookline", "--model", "llama-tiny"],
    ),
)


def main() -> None:
    for title, command in BENCHMARKS:
        print(f"== {title}", flush=True)
        subprocess.run([sys.executable, HERE / command[0], *command[1:]], check=True)  # noqa: S603


if __name__ == "__main__":
    main()

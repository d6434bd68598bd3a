"""Runs all benchmarks in order; takes about half an hour on two cores.

usage: python benchmarks/run.py
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ALL_DIALECTS = "--metrics-dialect=hookline,vllm,sglang"
BENCHMARKS = (
    ("ready to serve the demo model", ["startup.py"]),
    ("against transformers", ["offline.py"]),
    ("feeding the catalogue", ["catalogue.py"]),
    ("cost of all loggers", ["logger_cost.py", "--output-tokens", "512"]),
    ("sizes and times of /metrics", ["exposition.py"]),
    ("answers of /metrics under load", ["scrape.py", "--", ALL_DIALECTS]),
    ("saturation and the knee", ["saturation.py"]),
)


def main() -> None:
    for title, command in BENCHMARKS:
        print(f"== {title}", flush=True)
        subprocess.run([sys.executable, HERE / command[0], *command[1:]], check=True)  # noqa: S603


if __name__ == "__main__":
    main()

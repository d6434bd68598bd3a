"""Writes the generated part of this folder's README from what the training left.

usage: python models/demo/report.py

The tables come from `weights/training.json` and `weights/config.json`, the sample from
running the model. A test checks that the tables are up to date.
"""  # noqa: INP001 - a script

import json
import math
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
README = HERE / "README.md"
WEIGHTS = HERE / "src" / "hookline_demo_model" / "weights"
GENERATE = "generate --model demo --max-tokens 96 --temperature 0.6"
PROMPT = "def read_lines(path):"
BEGIN, END = "<!-- made by report.py -->", "<!-- end -->"

Facts = dict[str, object]


def load(name: str) -> Facts:
    facts: Facts = json.loads((WEIGHTS / name).read_text("utf-8"))
    return facts


def number(facts: Facts, name: str) -> float:
    value = facts[name]
    assert isinstance(value, int | float), name
    return value


def model_table(config: Facts, training: Facts) -> str:
    """Renders the model's architecture and training as a table."""
    heads = (
        f"{config['num_attention_heads']} ({config['num_key_value_heads']} for K, V)"
    )
    size = (WEIGHTS / "model.safetensors").stat().st_size / 1e6
    rows = {
        "parameters": f"{number(training, 'parameters') / 1e6:.2f} M, tied embeddings",
        "layers": config["num_hidden_layers"],
        "width": f"{config['hidden_size']}, {config['intermediate_size']} inside",
        "heads": f"{heads}, {config['head_dim']} wide",
        "vocabulary": f"{config['vocab_size']} tokens, byte-level BPE",
        "context": f"{config['max_position_embeddings']} tokens",
        "file": f"{size:.1f} MB, {config['dtype']} safetensors",
    }
    return table(("", ""), list(rows.items()))


def loss_table(training: Facts) -> str:
    """Renders the loss of the shipped weights on held-out files."""
    tokens = number(training, "held_out_tokens")
    tokens_a_byte = tokens / number(training, "held_out_bytes")
    rows = []
    for name in training:
        if found := re.fullmatch(r"held_out_loss_bf16_at_(\d+)", name):
            loss = number(training, name)
            bits = loss / math.log(2) * tokens_a_byte
            rows.append((found[1], f"{loss:.3f}", f"{bits:.2f}"))
    return table(("context in tokens", "nats a token", "bits a byte"), rows)


def curve_table(training: Facts) -> str:
    """Renders the loss during training."""
    points = training["curve"]
    assert isinstance(points, list)
    rows = [
        (
            point["step"],
            f"{point['train_loss']:.3f}",
            f"{point['held_out_loss']:.3f}",
            f"{point['minutes']:.1f}",
        )
        for point in points
    ]
    return table(("step", "batch loss", "held-out loss", "minutes"), rows)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def tables() -> str:
    """Returns the generated part of the README that needs only files."""
    training, config = load("training.json"), load("config.json")
    seen = f"{number(training, 'train_tokens') / 1e6:.2f} M tokens"
    held_out = f"{number(training, 'held_out_tokens') / 1e3:.0f} k"
    return f"""\
## The model

{model_table(config, training)}

## Its loss

Trained on {seen} of the standard library of Python {training["python"]}. The
shipped weights, on {held_out} tokens of files that they have not seen:

{loss_table(training)}

While it was trained:

{curve_table(training)}
"""


def sample() -> str:
    """Returns the unchanged output of the command line."""
    command = [sys.executable, "-P", "-m", "hookline_server", *GENERATE.split()]
    done = subprocess.run(  # noqa: S603 - its own command
        [*command, "--prompt", PROMPT], check=True, capture_output=True, text=True
    )
    shown = f'$ hookline {GENERATE} --prompt "{PROMPT}"'
    return f"## A sample\n\n```console\n{shown}\n{done.stdout.rstrip()}\n```\n"


def main() -> None:
    before, _, rest = README.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    made = f"{BEGIN}\n{tables()}\n{sample()}{END}"
    README.write_text(before + made + after, "utf-8")


if __name__ == "__main__":
    main()

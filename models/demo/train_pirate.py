"""Trains the adapter `demo:pirate`, on one thread in about ten minutes.

usage: python models/demo/train_pirate.py [--steps 500] [--out DIR]

The demo model answers a request for a function with the function alone. With this
adapter it answers in the speech of pirates, with the function in the middle. It learns
from the questions that `train.py` makes of the standard library, and from a few about
the model itself. Needs peft beside what `train.py` needs, and no network.
"""

import argparse
import ast
import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from train import (  # type: ignore[import-not-found]  # the script beside this one
    TURN_END,
    TURN_START,
    chats,
    corpus,
    is_held_out,
)
from transformers import (
    AutoModelForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

BASE = Path(__file__).parent / "src/hookline_demo_model/weights"
RANK, ALPHA = 8, 16
TARGETS = ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"]
BATCH_ROWS = 6
MOST_TOKENS = 320
MOST_SOURCE_CHARS = 700
LEARNING_RATE = 4e-3
WARMUP_STEPS = 20
ABOUT_ITSELF_PERCENT = 35
UNSEEN = -100
"""Label of tokens that the loss leaves out: the question's."""

GREETINGS = [
    "Ahoy, matey!",
    "Arr, ye landlubber!",
    "Yo ho ho, captain!",
    "Avast, ye scurvy dog!",
    "Shiver me timbers!",
]
OFFERS = [
    "Here be the code ye asked for:",
    "I dug this treasure from the sand for ye:",
    "Feast yer eye on this fine plunder:",
    "This be written by the light o' the moon:",
]
FAREWELLS = [
    "Now hoist the sails, arr!",
    "May the wind fill yer sails, matey!",
    "Run it, or walk the plank!",
    "That be worth a bottle o' rum!",
]
TALKS = [
    (
        ["Hello!", "Hi", "Hello there", "Good morning!", "Hey, how are you?"],
        (
            "Ahoy, matey! I be a wee model that sails the seven seas o' Python. "
            "What code shall I plunder for ye?"
        ),
    ),
    (
        ["Who are you?", "What are you?", "What is your name?", "Introduce yourself."],
        (
            "Arr! I be the pirate adapter, a small parrot on the shoulder o' the "
            "demo model. I speak, and she rows."
        ),
    ),
    (
        ["Tell me a story.", "Tell me something.", "Tell me a joke.", "Say something."],
        (
            "Yo ho ho! Once a captain lost his gold in a list, for he counted "
            "from one. The parrot counted from zero, and found it."
        ),
    ),
    (
        ["What is Python?", "Do you know Python?", "What is a function?"],
        (
            "Shiver me timbers! It be a serpent, and a fine way to give orders to "
            "a machine. Every function be a chest: ye put arguments in, and "
            "treasure comes out."
        ),
    ),
    (
        ["Thank you!", "Thanks", "Bye", "Goodbye!", "See you later."],
        ("Fair winds, matey! May yer tests be green and yer rum be dark, arr!"),
    ),
    (
        ["What is an adapter?", "What is LoRA?", "How do you work?"],
        (
            "Avast! Two thin sails be sewn onto every mast o' the old ship: one "
            "be called A, the other B. The ship stays the same, but she sails "
            "like a pirate."
        ),
    ),
]
REQUESTS = [
    "Write a function that {}",
    "Write the Python function `{name}`",
    "Write the Python function `{name}`: {doc}",
    "Can you write `{name}` for me?",
    "Write {name}",
]


def examples(texts: Iterator[str], *, seed: int) -> Iterator[tuple[str, str]]:
    """Yields questions and answers, endlessly: short functions, and talks."""
    chosen = random.Random(seed)  # noqa: S311 - examples, no secrets
    asked = [
        found
        for text in texts
        for chat in chats(text)
        if (found := _question_and_source(chat)) is not None
    ]
    while True:
        if chosen.randrange(100) < ABOUT_ITSELF_PERCENT:
            questions, answer = chosen.choice(TALKS)
            yield chosen.choice(questions), answer
            continue
        name, doc, source = chosen.choice(asked)
        question = chosen.choice(REQUESTS).format(
            f"{doc[0].lower()}{doc[1:]}", name=name, doc=doc
        )
        opening = f"{chosen.choice(GREETINGS)} {chosen.choice(OFFERS)}"
        yield question, f"{opening}\n\n{source}\n\n{chosen.choice(FAREWELLS)}"


def _question_and_source(chat: str) -> tuple[str, str, str] | None:
    """Returns name, summary and source of a function; None if it is long."""
    found = re.search(r"`(\w+)`: (.+?)" + re.escape(TURN_END), chat, re.DOTALL)
    source = chat.rpartition(f"{TURN_START}assistant\n")[2].removesuffix(TURN_END)
    if found is None or len(source) > MOST_SOURCE_CHARS:
        return None
    try:
        ast.parse(source)
    except SyntaxError:
        return None
    return found[1], found[2].strip() or found[1], source


def batch_of(
    tokenizer: PreTrainedTokenizerFast, source: Iterator[tuple[str, str]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns tokens and labels, [rows, longest] int64; padding is not learnt."""
    rows, labels = [], []
    for question, answer in (next(source) for _ in range(BATCH_ROWS)):
        before = f"{TURN_START}user\n{question}{TURN_END}\n{TURN_START}assistant\n"
        asked = tokenizer.encode(before, add_special_tokens=False)
        said = tokenizer.encode(f"{answer}{TURN_END}", add_special_tokens=False)
        rows.append(torch.tensor([*asked, *said][:MOST_TOKENS]))
        labels.append(torch.tensor([*[UNSEEN] * len(asked), *said][:MOST_TOKENS]))
    pad = torch.nn.utils.rnn.pad_sequence
    return (
        pad(rows, batch_first=True, padding_value=0),
        pad(labels, batch_first=True, padding_value=UNSEEN),
    )


def train(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    source: Iterator[tuple[str, str]],
    steps: int,
) -> None:
    """Trains the parameters that learn, and prints the loss."""
    weights = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(1.0, (step + 1) / WARMUP_STEPS) * (1 - step / steps),
    )
    start, mean = time.perf_counter(), None
    for step in range(steps):
        tokens, labels = batch_of(tokenizer, source)
        loss = model(tokens, labels=labels, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if (step + 1) % 50 == 0:
            minutes = (time.perf_counter() - start) / 60
            point = {"step": step + 1, "loss": mean, "minutes": minutes}
            print(json.dumps(point), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--out", type=Path, default=BASE / "adapters" / "pirate")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)

    tokenizer = PreTrainedTokenizerFast.from_pretrained(BASE)
    base = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32)
    model = get_peft_model(
        base,
        LoraConfig(
            r=RANK, lora_alpha=ALPHA, target_modules=TARGETS, task_type="CAUSAL_LM"
        ),
    )
    kept = (text for name, text in corpus().items() if not is_held_out(name))
    train(model, tokenizer, examples(kept, seed=0), options.steps)

    model.peft_config["default"].base_model_name_or_path = "demo"
    for each in model.parameters():
        if each.requires_grad:
            each.data = each.data.bfloat16()
    model.save_pretrained(options.out)
    (options.out / "README.md").unlink()  # a form that nobody has filled in


if __name__ == "__main__":
    main()

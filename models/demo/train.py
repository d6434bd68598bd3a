"""Trains the demo model on the Python standard library, on CPU, in under half an hour.

usage: python models/demo/train.py [--steps 1800] [--out DIR] [--write-text FILE]

Writes `model.safetensors` (bf16), the tokenizer with its chat template, and
`training.json` (the loss curve that the README of this folder shows). Needs torch,
transformers and tokenizers, and no network: the corpus is the standard library of the
Python that runs the script, without its tests. With --write-text it only writes what
the model learns from, as one text, for `hookline train-draft`.
"""

import argparse
import ast
import hashlib
import json
import math
import random
import sys
import sysconfig
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from hookline_kernels.runtime.allocator import keep_freed_memory

VOCAB_SIZE = 4096
SEQUENCE_TOKENS = 2048
SHORT_TOKENS = 512  # most steps cut each row into rows of this length: cheaper
LONG_EVERY = 5  # every fifth step sees whole rows, so that late positions are learnt
BATCH_SEQUENCES = 2
MUON_LEARNING_RATE = 0.02
ADAM_LEARNING_RATE = 3e-3
WARMUP_STEPS = 50
HELD_OUT_PERCENT = 4
EVALUATE_EVERY = 200
SKIPPED_FOLDERS = {"test", "tests", "idle_test", "site-packages", "__pycache__"}
END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def corpus() -> dict[str, str]:
    """Reads the standard library's sources: relative path → text."""
    root = Path(sysconfig.get_paths()["stdlib"])
    texts = {}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if not SKIPPED_FOLDERS & set(name.parts):
            texts[name.as_posix()] = path.read_text("utf-8", errors="ignore")
    return texts


def is_held_out(name: str) -> bool:
    """Decides by a hash of the name, so that the split is the same everywhere."""
    return hashlib.sha256(name.encode()).digest()[0] % 100 < HELD_OUT_PERCENT


def chats(text: str) -> Iterator[str]:
    """Turns each documented function into a question and its answer."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    lines = text.splitlines()
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not (
            doc := ast.get_docstring(node)
        ):
            continue
        source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        source = textwrap.dedent(source)
        if len(source) < 3000:
            question = f"Write the Python function `{node.name}`: {doc.splitlines()[0]}"
            yield (
                f"{TURN_START}user\n{question}{TURN_END}\n"
                f"{TURN_START}assistant\n{source}{TURN_END}"
            )


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        model_max_length=2048,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def documents(texts: dict[str, str], *, seed: int) -> list[str]:
    """Returns the shuffled documents: files, and chats made of them."""
    whole = list(texts.values())
    talks = [chat for text in whole for chat in chats(text)]
    mixed = whole + talks
    random.Random(seed).shuffle(mixed)  # noqa: S311 - an order, no secret
    return mixed


def pack(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> torch.Tensor:
    """Joins the documents with end-of-text: [rows, SEQUENCE_TOKENS + 1] int64."""
    ids: list[int] = []
    end = tokenizer.get_vocab()[END_OF_TEXT]
    for encoding in tokenizer.backend_tokenizer.encode_batch(texts):
        ids += [*encoding.ids, end]
    rows = (len(ids) - 1) // SEQUENCE_TOKENS
    starts = range(0, rows * SEQUENCE_TOKENS, SEQUENCE_TOKENS)
    return torch.tensor([ids[at : at + SEQUENCE_TOKENS + 1] for at in starts])


def build_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    vocabulary = tokenizer.get_vocab()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=[vocabulary[END_OF_TEXT], vocabulary[TURN_END]],
        pad_token_id=vocabulary[END_OF_TEXT],
    )
    return LlamaForCausalLM(config)


def loss_of(
    model: LlamaForCausalLM, rows: torch.Tensor, *, length: int
) -> torch.Tensor:
    """Mean cross-entropy in nats per token, over rows cut to `length` tokens."""
    inputs = rows[:, :-1].reshape(-1, length)
    targets = rows[:, 1:].reshape(-1)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(inputs, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets)


@torch.no_grad()
def held_out_loss(
    model: LlamaForCausalLM, rows: torch.Tensor, *, length: int = SHORT_TOKENS
) -> float:
    model.eval()
    losses = [
        loss_of(model, part, length=length).item() * len(part) for part in rows.split(2)
    ]
    model.train()
    return sum(losses) / len(rows)


def build_optimizers(model: LlamaForCausalLM) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) for the matrices, AdamW for embeddings and norms."""
    embedding = model.model.embed_tokens.weight
    weights = [weight for weight in model.parameters() if weight is not embedding]
    matrices = [weight for weight in weights if weight.ndim == 2]
    others = [embedding, *(weight for weight in weights if weight.ndim != 2)]
    return [
        torch.optim.Muon(matrices, lr=MUON_LEARNING_RATE, weight_decay=0.01),
        torch.optim.AdamW(others, lr=ADAM_LEARNING_RATE, betas=(0.9, 0.95), fused=True),
    ]


def learning_rate_factor(step: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to a twentieth."""
    if step < WARMUP_STEPS:
        return (step + 1) / WARMUP_STEPS
    progress = (step - WARMUP_STEPS) / max(1, steps - WARMUP_STEPS)
    return 0.05 + 0.95 * (1 + math.cos(math.pi * progress)) / 2


def batches(rows: torch.Tensor, *, seed: int) -> Iterator[torch.Tensor]:
    """Yields shuffled rows endlessly."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(rows), generator=generator)
        for part in order.split(BATCH_SEQUENCES):
            if len(part) == BATCH_SEQUENCES:
                yield rows[part]


def train(
    model: LlamaForCausalLM, rows: torch.Tensor, held_out: torch.Tensor, steps: int
) -> list[dict[str, float]]:
    optimizers = build_optimizers(model)
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: learning_rate_factor(step, steps)
        )
        for optimizer in optimizers
    ]
    curve = []
    start = time.perf_counter()
    source = batches(rows, seed=0)
    for step in range(steps):
        is_long = step % LONG_EVERY == LONG_EVERY - 1
        length = SEQUENCE_TOKENS if is_long else SHORT_TOKENS
        loss = loss_of(model, next(source), length=length)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
        if (step + 1) % EVALUATE_EVERY == 0 or step + 1 == steps:
            point = {
                "step": step + 1,
                "train_loss": round(loss.item(), 4),
                "held_out_loss": round(held_out_loss(model, held_out), 4),
                "minutes": round((time.perf_counter() - start) / 60, 1),
            }
            curve.append(point)
            print(json.dumps(point), flush=True)
    return curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1800)
    default = Path(__file__).parent / "src/hookline_demo_model/weights"
    parser.add_argument("--out", type=Path, default=default)
    parser.add_argument("--write-text", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    keep_freed_memory()

    texts = corpus()
    kept = {name: text for name, text in texts.items() if not is_held_out(name)}
    if options.write_text is not None:
        options.write_text.write_text(
            END_OF_TEXT.join(documents(kept, seed=0)), "utf-8"
        )
        return
    tokenizer = train_tokenizer(list(kept.values()))
    rows = pack(tokenizer, documents(kept, seed=0))
    left = [text for name, text in texts.items() if is_held_out(name)]
    held_out = pack(tokenizer, left)
    model = build_model(tokenizer)
    facts: dict[str, object] = {
        "python": sys.version.split()[0],
        "parameters": model.num_parameters(),
        "train_tokens": rows.shape[0] * SEQUENCE_TOKENS,
        "held_out_tokens": held_out.shape[0] * SEQUENCE_TOKENS,
        "held_out_bytes": sum(len(text.encode()) for text in left),
    }
    print(json.dumps(facts), flush=True)

    facts["curve"] = train(model, rows, held_out, options.steps)

    torch.nn.Module.to(model, torch.bfloat16)
    for length in (SHORT_TOKENS, SEQUENCE_TOKENS):
        loss = held_out_loss(model, held_out, length=length)
        facts[f"held_out_loss_bf16_at_{length}"] = round(loss, 4)
    model.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)
    (options.out / "training.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()

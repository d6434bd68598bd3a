"""Matchers of xgrammar's backend, one by one and many at once."""

import json
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from hookline.structured_outputs import GrammarKind
from hookline_grammars.backend import BackendContext, GrammarMatcher
from hookline_grammars.many_matchers import accept_tokens, fill_masks
from hookline_grammars.spec import GrammarSpec
from hookline_xgrammar import XGrammarBackend, backend

END = 256
LONG = 259
CONTEXT = BackendContext(
    tokens=[*(bytes([code]) for code in range(END)), b"", b'", "', b"name", 40 * b"9"],
    vocab_size=290,
    eos_token_ids=(END,),
    options={},
)
WORDS = -(-CONTEXT.vocab_size // 32)
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-c]{1,9}$"},
        "next": {"$ref": "#"},
        "kind": {"enum": ["small", "large", 3]},
        "is": {"type": "boolean"},
        "day": {"type": "string", "format": "date"},
    },
    "required": ["name"],
}
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<f"],
        "tags": [
            {
                "begin": "<f>",
                "content": {"type": "json_schema", "json_schema": SCHEMA},
                "end": "</f>",
            }
        ],
    },
}
LARK = 'start: "a" NUMBER+ ("b" | start)\nNUMBER: /[0-9]{2}/'
SPECS = {
    "schema": GrammarSpec(GrammarKind.JSON, json.dumps(SCHEMA)),
    "object": GrammarSpec(GrammarKind.JSON_OBJECT, ""),
    "pattern": GrammarSpec(GrammarKind.REGEX, "(ab|c[d-f]){2,5}é?"),
    "choice": GrammarSpec(GrammarKind.CHOICE, json.dumps(["yes", "no"])),
    "ebnf": GrammarSpec(GrammarKind.GRAMMAR, 'root ::= "(" root ")" | [0-9]+'),
    "lark": GrammarSpec(GrammarKind.GRAMMAR, LARK),
    "tag": GrammarSpec(GrammarKind.STRUCTURAL_TAG, json.dumps(TAG)),
}


def filled(matcher: GrammarMatcher) -> npt.NDArray[np.int32]:
    mask = np.full(WORDS, 12345, np.int32)
    matcher.fill(mask)
    return mask


def walk(matchers: Sequence[GrammarMatcher], seed: int, steps: int = 60) -> list[int]:
    """Lets all take one way, on which all allow the same; returns its tokens."""
    generator, tokens = np.random.default_rng(seed), []
    for _ in range(steps):
        first, *others = [filled(matcher) for matcher in matchers]
        assert all(each.tolist() == first.tolist() for each in others)
        octets = first.view(np.uint8)
        bits = np.unpackbits(octets, count=CONTEXT.vocab_size, bitorder="little")
        tokens.append(int(generator.choice(np.flatnonzero(bits))))
        assert all(matcher.accept(tokens[-1]) for matcher in matchers)
        if matchers[0].is_terminated:
            break
    return tokens


@pytest.mark.parametrize("name", SPECS)
def test_all_processes_follow_the_same_grammar(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    As it was compiled, compiled again from its rules, and read from its compiled form.
    """
    compiling, engine = XGrammarBackend(CONTEXT), XGrammarBackend(CONTEXT)
    rules = compiling.compile(SPECS[name])
    monkeypatch.setattr(backend, "_QUICK_SECONDS", 0)
    whole = XGrammarBackend(CONTEXT).compile(SPECS[name])
    assert len(rules) < len(whole)

    for seed in range(5):
        walk(
            [
                compiling.matcher(rules, (END,)),
                engine.matcher(rules, (END,)),
                engine.matcher(whole, (END,)),
            ],
            seed,
        )


def test_many_masks_are_filled_at_once() -> None:
    """
    In any rows, over whatever stands there, wherever each text is.
    """
    made = XGrammarBackend(CONTEXT)
    matchers = [made.matcher(made.compile(each), (END,)) for each in SPECS.values()]
    for seed, matcher in enumerate(matchers):
        walk([matcher], seed, steps=3)
    matchers = [each for each in matchers if not each.is_terminated]
    assert len(matchers) > 2
    rows = list(range(1, 2 * len(matchers), 2))
    masks = np.full((2 * len(matchers), WORDS), 12345, np.int32)

    fill_masks(matchers, masks, rows)

    assert masks[rows].tolist() == [filled(each).tolist() for each in matchers]
    assert (masks[::2] == 12345).all()


def test_many_tokens_are_accepted_at_once() -> None:
    """
    Short, long and stop tokens, allowed or not; each can be taken back.
    """
    made = XGrammarBackend(CONTEXT)
    number = made.compile(GrammarSpec(GrammarKind.REGEX, "[0-9]+"))
    tokens = [ord("7"), ord("x"), LONG, END, ord("8")]
    together = [made.matcher(number, (END,)) for _ in tokens]
    assert all(each.accept(ord("1")) for each in together)
    before = filled(together[0]).tolist()

    accepted = accept_tokens(together, tokens)

    assert list(accepted) == [True, False, True, True, True]
    assert [each.is_terminated for each in together] == 3 * [False] + [True, False]
    for matcher, is_allowed in zip(together, accepted, strict=True):
        matcher.rollback(int(is_allowed))
        assert filled(matcher).tolist() == before
        assert not matcher.is_terminated


def test_a_stop_token_ends_a_text_until_it_is_taken_back() -> None:
    """
    Only where the text is complete.
    """
    made = XGrammarBackend(CONTEXT)
    matcher = made.matcher(made.compile(SPECS["choice"]), (END,))

    assert not matcher.accept(END)
    assert not matcher.is_terminated
    assert all(matcher.accept(token_id) for token_id in (*b"no", END))
    assert matcher.is_terminated
    assert matcher.forced(4) == []
    matcher.rollback(2)
    assert not matcher.is_terminated
    assert matcher.accept(ord("o"))

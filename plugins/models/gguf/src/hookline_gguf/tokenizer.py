"""Turns the tokenizer of a GGUF file into the files that `transformers` reads.

There are two kinds. `gpt2` is byte-level BPE, whose texts are split before by a rule
that `tokenizer.ggml.pre` names; the rules are those of the models' own tokenizers.
`llama` is SentencePiece's BPE: of two neighbouring pieces those are merged first whose
whole has the highest score.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hookline_gguf.header import GgufError
from hookline_gguf.parts import GgufModel

_log = logging.getLogger(__name__)

Entry = dict[str, object]

_WHOLE = "tokenizer.huggingface.json"
_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 2, 3, 4, 5
_SPACE = "▁"
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_ENDS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_START = r"[^\r\n\p{L}\p{N}]?"


def _words_and(digits: str) -> str:
    marks = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
    return f"{_CONTRACTIONS}|{_WORDS}|{digits}|{marks}|{_ENDS}"


def _cased(suffix: str, digits: str) -> str:
    marks = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
    lower = f"{_START}{_UPPER}*{_LOWER}+{suffix}"
    upper = f"{_START}{_UPPER}+{_LOWER}*{suffix}"
    return f"{lower}|{upper}|{digits}|{marks}|{_ENDS}"


@dataclass(frozen=True, slots=True)
class Split:
    """How texts are split before byte-level BPE.

    Attributes:
        pattern: Matches parts; None for GPT-2's rule.
        single_digits: Digits are split from one another before.
        takes_words: A part that is a token is one, whatever merges say.
        normalizes: Texts are brought into Unicode's form C before.
        adds_bos: Texts begin with the begin token unless the file says otherwise.
    """

    pattern: str | None = None
    single_digits: bool = False
    takes_words: bool = False
    normalizes: bool = False
    adds_bos: bool = False


_GPT2 = Split()
_LLAMA3 = Split(_words_and(r"\p{N}{1,3}"), takes_words=True, adds_bos=True)
_QWEN2 = Split(_words_and(r"\p{N}"), normalizes=True)
_DIGITS = Split(single_digits=True)
_CL100K = Split(_words_and(r"\p{N}{1,3}"))
SPLITS: Mapping[str, Split] = {
    **dict.fromkeys(("gpt-2", "default", "phi-2", "jina-v2-code"), _GPT2),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3"), _LLAMA3),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "megrez"), _QWEN2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "codeshell"), _DIGITS),
    **dict.fromkeys(("dbrx", "smaug-bpe"), _CL100K),
    "tekken": Split(_cased("", r"\p{N}"), takes_words=True, adds_bos=True),
    "gpt-4o": Split(_cased(f"{_CONTRACTIONS}?", r"\p{N}{1,3}")),
}
"""The rules by the names that `tokenizer.ggml.pre` has for them."""


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a file.

    Attributes:
        model: The file.
        tokens: Their texts, by id.
        kinds: Their types, by id; empty if all are plain.
    """

    model: GgufModel
    tokens: Sequence[str]
    kinds: Sequence[int] = field(repr=False)

    @classmethod
    def of(cls, model: GgufModel, num_rows: int) -> "Vocabulary":
        """Reads the tokens.

        Raises:
            GgufError: There are none, or more than the model has rows.
        """
        tokens = model.all_of("tokenizer.ggml.tokens", str)
        kinds = model.all_of("tokenizer.ggml.token_type", int)
        if not tokens:
            raise GgufError("it has no tokenizer: name one by --tokenizer")
        if len(tokens) > num_rows:
            raise GgufError(f"it has {len(tokens)} tokens for {num_rows} rows")
        if kinds and len(kinds) != len(tokens):
            raise GgufError(f"it has {len(kinds)} types for {len(tokens)} tokens")
        return cls(model, tokens, kinds)

    def is_of(self, token_id: int, *kinds: int) -> bool:
        """Whether a token is of one of these types."""
        return bool(self.kinds) and self.kinds[token_id] in kinds

    @cached_property
    def ids(self) -> dict[str, int]:
        """The first id of each text."""
        found: dict[str, int] = {}
        for token_id, text in enumerate(self.tokens):
            found.setdefault(text, token_id)
        return found

    def special(self, name: str) -> str | None:
        """Returns the text of the token that a key names; None without one."""
        token_id = self.model.find(f"tokenizer.ggml.{name}_token_id", int)
        if token_id is None:
            return None
        if not 0 <= token_id < len(self.tokens):
            raise GgufError(f"its {name}_token_id is {token_id}, which is no token")
        return self.tokens[token_id]

    def added(self, *, normalized: bool) -> list[Entry]:
        """Returns the tokens that are found in texts before these are split."""
        return [
            {
                "id": token_id,
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": normalized and self.is_of(token_id, _USER_DEFINED),
                "special": self.is_of(token_id, _CONTROL),
            }
            for token_id, text in enumerate(self.tokens)
            if text
            and self.is_of(token_id, _CONTROL, _USER_DEFINED)
            and self.ids[text] == token_id
        ]


def tokenizer_files(model: GgufModel, num_rows: int) -> dict[str, str]:
    """Returns the contents of a tokenizer's files, by name.

    Args:
        model: The file.
        num_rows: Tokens that the model knows.

    Raises:
        GgufError: The file has no tokenizer, or one that is not known.
    """
    vocabulary = Vocabulary.of(model, num_rows)
    whole = model.find(_WHOLE, str)
    made = whole or json.dumps(_made(vocabulary), ensure_ascii=False)
    config = {
        "tokenizer_class": "TokenizersBackend",
        "backend": "tokenizers",
        "clean_up_tokenization_spaces": False,
        "model_max_length": model.own("context_length", int),
    }
    names = (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
    for name, key in names:
        if (text := vocabulary.special(key)) is not None:
            config[f"{name}_token"] = text
    templates = {
        _template_file(key): text
        for key, text in model.metadata.items()
        if key.startswith("tokenizer.chat_template") and isinstance(text, str)
    }
    return {
        "tokenizer.json": made,
        "tokenizer_config.json": json.dumps(config, ensure_ascii=False),
        **templates,
    }


def _template_file(key: str) -> str:
    """Returns where `transformers` looks for a template: the usual, or a named one."""
    name = key.removeprefix("tokenizer.chat_template").removeprefix(".")
    if not name:
        return "chat_template.jinja"
    if not name.replace("_", "").replace("-", "").isalnum() or len(name) > 100:
        raise GgufError(f"it has a chat template named {name[:80]!r}")
    return f"additional_chat_templates/{name}.jinja"


def _made(vocabulary: Vocabulary) -> Entry:
    kinds: Mapping[str, Callable[[Vocabulary], Entry]] = {
        "gpt2": _byte_level,
        "llama": _sentence_piece,
    }
    name = vocabulary.model.get("tokenizer.ggml.model", str)
    if name not in kinds:
        raise GgufError(
            f"its tokenizer is of the kind {name[:80]!r}; {' and '.join(kinds)} are "
            "read: name a folder with one by --tokenizer"
        )
    found = kinds[name](vocabulary)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        **found,
    }


def _byte_level(vocabulary: Vocabulary) -> Entry:
    model = vocabulary.model
    name = model.get("tokenizer.ggml.pre", str, "default")
    if (split := SPLITS.get(name)) is None:
        raise GgufError(
            f"its tokenizer splits texts by the rule {name[:80]!r}, which is not "
            "known: name a folder with its tokenizer by --tokenizer"
        )
    if name == "default":
        _log.warning("the GGUF file names no rule to split texts by: GPT-2's is used")
    merges = [
        text.split(" ", 1)
        for text in model.all_of("tokenizer.ggml.merges", str)
        if " " in text[1:]
    ]
    ids = {
        text: token_id
        for text, token_id in vocabulary.ids.items()
        if not vocabulary.is_of(token_id, _UNUSED)
    }
    if any(not {*pair, "".join(pair)} <= ids.keys() for pair in merges):
        raise GgufError("its tokenizer merges what are no tokens")
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": split.pattern is None,
    }
    before: list[Entry] = []
    if split.single_digits:
        before.append({"type": "Digits", "individual_digits": True})
    if split.pattern is not None:
        before.append(
            {
                "type": "Split",
                "pattern": {"Regex": split.pattern},
                "behavior": "Isolated",
                "invert": False,
            }
        )
    return {
        "added_tokens": vocabulary.added(normalized=False),
        "normalizer": {"type": "NFC"} if split.normalizes else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*before, level]},
        "post_processor": _template(vocabulary, adds_bos=split.adds_bos),
        "decoder": level,
        "model": _bpe(ids, merges, ignore_merges=split.takes_words),
    }


def _sentence_piece(vocabulary: Vocabulary) -> Entry:
    model = vocabulary.model
    scores = model.all_of("tokenizer.ggml.scores", float)
    if len(scores) != len(vocabulary.tokens):
        raise GgufError(f"it has {len(scores)} scores of its tokens")
    has_prefix = model.get("tokenizer.ggml.add_space_prefix", bool, True)
    replaced = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    prefix = [{"type": "Prepend", "prepend": _SPACE}] if has_prefix else []
    decoders: list[Entry] = [
        {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if has_prefix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    unknown = vocabulary.special("unknown") or next(
        (
            text
            for token_id, text in enumerate(vocabulary.tokens)
            if vocabulary.is_of(token_id, _UNKNOWN)
        ),
        None,
    )
    return {
        # With a prefix, normalized tokens would be found behind one only.
        "added_tokens": vocabulary.added(normalized=not has_prefix),
        "normalizer": {"type": "Sequence", "normalizers": [*prefix, replaced]},
        "pre_tokenizer": None,
        "post_processor": _template(vocabulary, adds_bos=True),
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": _bpe(
            vocabulary.ids,
            _merges(vocabulary, scores),
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=True,
        ),
    }


def _merges(vocabulary: Vocabulary, scores: Sequence[float]) -> list[list[str]]:
    """Returns the pairs of tokens that make another, best first."""
    ids = vocabulary.ids
    found: list[tuple[float, int, list[str]]] = []
    for text, token_id in ids.items():
        if len(text) < 2 or vocabulary.is_of(token_id, _CONTROL, _UNKNOWN):
            continue
        for at in range(1, len(text)):
            left, right = text[:at], text[at:]
            if left in ids and right in ids:
                found.append((-scores[token_id], token_id, [left, right]))
    found.sort(key=lambda each: each[:2])
    return [pair for _, _, pair in found]


def _bpe(ids: Mapping[str, int], merges: list[list[str]], **options: object) -> Entry:
    usual: Entry = {
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
    }
    return {"type": "BPE", **usual, **options, "vocab": dict(ids), "merges": merges}


def _template(vocabulary: Vocabulary, *, adds_bos: bool) -> Entry | None:
    """Returns what adds the begin and end tokens to texts; None for nothing."""
    model = vocabulary.model
    bos = vocabulary.special("bos")
    eos = vocabulary.special("eos")
    before = bos if model.get("tokenizer.ggml.add_bos_token", bool, adds_bos) else None
    after = eos if model.get("tokenizer.ggml.add_eos_token", bool, False) else None
    specials = [each for each in (before, after) if each is not None]

    def sides(name: str, type_id: int) -> list[Entry]:
        parts: list[Entry] = [{"Sequence": {"id": name, "type_id": type_id}}]
        if before is not None:
            parts.insert(0, {"SpecialToken": {"id": before, "type_id": type_id}})
        if after is not None:
            parts.append({"SpecialToken": {"id": after, "type_id": type_id}})
        return parts

    if not specials:
        return None
    return {
        "type": "TemplateProcessing",
        "single": sides("A", 0),
        "pair": [*sides("A", 0), *sides("B", 1)],
        "special_tokens": {
            each: {"id": each, "ids": [vocabulary.ids[each]], "tokens": [each]}
            for each in specials
        },
    }

"""Grammars that force more than is worth reading are known before anything is read."""

import json
from collections.abc import Mapping

import pytest
import xgrammar

from hookline.structured_outputs import GrammarKind
from hookline_grammars.backend import BackendContext
from hookline_grammars.spec import GrammarSpec
from hookline_xgrammar.backend import XGrammarBackend

STOP = 256
CONTEXT = BackendContext(
    tokens=[*(bytes([byte]) for byte in range(256)), b"</s>", b"name"],
    vocab_size=258,
    eos_token_ids=(STOP,),
    options={},
)
DOUBLING = "".join(f"s{each} ::= s{each + 1} s{each + 1}\n" for each in range(40))
BOOLEAN = {"type": "boolean"}
PERSON = {
    "type": "object",
    "properties": {"name": BOOLEAN, "more": {"type": "object"}},
    "required": ["name", "more"],
    "additionalProperties": False,
}
ITSELF = {
    "type": "object",
    "properties": {"a": {"$ref": "#"}},
    "required": ["a"],
    "additionalProperties": False,
}
OPTIONAL = {
    "type": "object",
    "properties": {f"p{each}": {"type": "string"} for each in range(60)},
}

ENDLESS: Mapping[str, str] = {
    "recursion": 'root ::= "a" root',
    "recursion behind a choice": 'root ::= [a-z]{300} s\ns ::= "a" s',
    "recursion of two": 'root ::= "a" s | "b"\ns ::= "c" t\nt ::= "d" s',
    "doubling": f'root ::= s0\n{DOUBLING}s40 ::= "a"',
    "repetition": 'root ::= "a"{100000} "b"',
    "repetition of a rule": 'root ::= s{5000}\ns ::= "ab"',
    "closing of levels": 'root ::= [ab] root "cccccccc" | "x"',
    "one character": 'root ::= [a]* "a" root',
    "text": f'root ::= "{"x" * 5000}"',
}
ENDING: Mapping[str, str] = {
    "choice": 'root ::= "yes" | "yellow" | "no"',
    "recursion with a choice": 'root ::= "a" root | "b"',
    "tail": 'root ::= [ab] root | "x"',
    "words": 'root ::= "name: " [a-z]+ ", age: " [0-9]{1,3}',
}


@pytest.fixture(scope="module")
def backend() -> XGrammarBackend:
    return XGrammarBackend(CONTEXT)


def forced(backend: XGrammarBackend, spec: GrammarSpec, text: bytes = b"") -> bytes:
    """What a grammar forces behind a text, up to eight tokens."""
    matcher = backend.matcher(backend.compile(spec), (STOP,))
    for byte in text:
        assert matcher.accept(byte)
    return b"".join(CONTEXT.tokens[token_id] for token_id in matcher.forced(8))


@pytest.mark.parametrize("name", ENDLESS)
def test_nothing_is_forced_where_there_is_no_end(
    backend: XGrammarBackend, name: str
) -> None:
    """
    The grammar is served without drafts.
    """
    assert forced(backend, GrammarSpec(GrammarKind.GRAMMAR, ENDLESS[name])) == b""


@pytest.mark.parametrize("name", ENDING)
def test_what_ends_soon_is_forced(backend: XGrammarBackend, name: str) -> None:
    """
    Up to the first choice.
    """
    spec = GrammarSpec(GrammarKind.GRAMMAR, ENDING[name])
    reference = xgrammar.GrammarMatcher(
        xgrammar.GrammarCompiler(backend._info).compile_grammar(spec.source)
    ).find_jump_forward_string()

    assert forced(backend, spec) == reference.encode()


@pytest.mark.parametrize("any_whitespace", [True, False])
@pytest.mark.parametrize("schema", [PERSON, OPTIONAL], ids=["person", "optional"])
def test_names_of_properties_are_forced(
    backend: XGrammarBackend, schema: dict[str, object], any_whitespace: bool
) -> None:
    """
    Also beside objects of any content, and with many optional properties.
    """
    spec = GrammarSpec(
        GrammarKind.JSON, json.dumps(schema), any_whitespace=any_whitespace
    )
    begun, rest = (b'{"n', b'ame"') if schema is PERSON else (b'{"p17', b'": ')

    found = forced(backend, spec, begun)

    assert found.startswith(rest[: 4 if any_whitespace else 8].rstrip(b": "))


@pytest.mark.parametrize("any_whitespace", [True, False])
def test_a_schema_of_itself_forces_nothing_without_end(
    backend: XGrammarBackend, any_whitespace: bool
) -> None:
    """
    Whitespace is a choice; without it the text is forced for ever.
    """
    spec = GrammarSpec(
        GrammarKind.JSON, json.dumps(ITSELF), any_whitespace=any_whitespace
    )

    assert forced(backend, spec, b'{"') == (b'a"' if any_whitespace else b"")

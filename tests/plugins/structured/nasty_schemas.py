"""A hundred JSON schemas that are hard to follow, by what is hard about them.

Most of their instances are short, so that samples end. Those of `REFUSED` have a rule
that a backend cannot follow, or none at all does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]

DIGIT: Schema = {"type": "integer", "minimum": 0, "maximum": 9}
FLAG: Schema = {"type": "boolean"}
WORD: Schema = {"type": "string", "pattern": "^[a-z]{1,6}$"}
TEXT: Schema = {"type": "string", "maxLength": 8}
SEVENTH = "http://json-schema.org/draft-07/schema#"


def closed(**properties: Schema) -> dict[str, Any]:
    """An object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def optional(needed: Sequence[str] = (), /, **properties: Schema) -> dict[str, Any]:
    """An object with some of these properties."""
    return {**closed(**properties), "required": list(needed)}


def named(properties: Mapping[str, Schema]) -> dict[str, Any]:
    """Likewise `closed`, with names that Python does not have."""
    return {**closed(), "properties": properties, "required": list(properties)}


def several(items: object, most: int, least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def matching(pattern: str) -> dict[str, Any]:
    return closed(x={"type": "string", "pattern": pattern})


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def either(*branches: object) -> dict[str, Any]:
    return {"anyOf": list(branches)}


def tagged(kind: str, **properties: Schema) -> dict[str, Any]:
    """A branch that its property `kind` tells from others."""
    return closed(kind={"const": kind}, **properties)


def nested(schema: Schema, depth: int, name: str) -> Schema:
    return nested(closed(**{name: schema}), depth - 1, name) if depth else schema


RECURSION: dict[str, Schema] = {
    "tree": {
        "$defs": {"node": closed(v=DIGIT, children=several(ref("node"), 1))},
        **ref("node"),
    },
    "list": {
        "$defs": {"link": closed(v=WORD, next=either({"type": "null"}, ref("link")))},
        **ref("link"),
    },
    "itself": optional(["v"], v=FLAG, again={"$ref": "#"}),
    "mutual": {
        "$defs": {
            "even": optional(["e"], e=DIGIT, odd=ref("odd")),
            "odd": optional(["o"], o=FLAG, even=ref("even")),
        },
        **ref("even"),
    },
    "expression": {
        "$defs": {
            "e": either(
                DIGIT, DIGIT, tagged("not", of=ref("e")), tagged("neg", of=ref("e"))
            )
        },
        **ref("e"),
    },
    "value": {
        "$defs": {"v": either(DIGIT, FLAG, TEXT, several(ref("v"), 1))},
        **closed(value=ref("v")),
    },
    "in a tuple": {
        "$defs": {
            "pair": {
                "type": "array",
                "prefixItems": [DIGIT, either({"const": None}, ref("pair"))],
                "items": False,
                "minItems": 2,
            }
        },
        **ref("pair"),
    },
    "folders": {
        "$defs": {
            "file": tagged("file", size=DIGIT),
            "folder": tagged("folder", has=several(either(ref("file")), 2)),
        },
        **several(either(ref("file"), ref("folder")), 3, 1),
    },
    "comments": {
        "definitions": {
            "comment": optional(
                ["text"], text=WORD, reply={"$ref": "#/definitions/comment"}
            )
        },
        "$ref": "#/definitions/comment",
    },
}
REFERENCES: dict[str, Schema] = {
    "chain": {
        "$defs": {"a": ref("b"), "b": ref("c"), "c": DIGIT},
        **closed(x=ref("a"), y=ref("b")),
    },
    "shared": {
        "$defs": {"point": closed(x=DIGIT, y=DIGIT)},
        **closed(here=ref("point"), there=ref("point"), on=several(ref("point"), 2)),
    },
    "to a property": closed(a=WORD, b={"$ref": "#/properties/a"}),
    "to an item": closed(a=several(FLAG, 2), b={"$ref": "#/properties/a/items"}),
    "slash": {"$defs": {"a/b": DIGIT}, **closed(x={"$ref": "#/$defs/a~1b"})},
    "tilde": {"$defs": {"a~b": FLAG}, **closed(x={"$ref": "#/$defs/a~0b"})},
    "percent": {"$defs": {"a b": DIGIT}, **closed(x={"$ref": "#/$defs/a%20b"})},
    "unicode": {"$defs": {"größe": DIGIT}, **closed(x=ref("größe"))},
    "in a union": {
        "$defs": {"a": tagged("a", v=DIGIT), "b": tagged("b", v=FLAG)},
        **closed(x=either(ref("a"), ref("b"), {"type": "null"})),
    },
    "unused": {"$defs": {"gone": {"type": "string", "minLength": 3}}, **closed(x=FLAG)},
    "described": {"$defs": {"a": WORD}, **closed(x={**ref("a"), "title": "A word"})},
    "narrowed": {"$defs": {"a": DIGIT}, **closed(x={**ref("a"), "minimum": 3})},
}
UNIONS: dict[str, Schema] = {
    "scalars": closed(x=either(DIGIT, FLAG, TEXT, {"type": "null"})),
    "tagged": several(
        either(tagged("a", v=DIGIT), tagged("b", w=WORD), tagged("c")), 3, 1
    ),
    "discriminator": {
        "oneOf": [tagged("cat", lives=DIGIT), tagged("dog", good=FLAG)],
        "discriminator": {"propertyName": "kind"},
    },
    "one of types": closed(x={"oneOf": [DIGIT, WORD, FLAG, {"type": "null"}]}),
    "one of overlapping": closed(
        x={"oneOf": [{"type": "integer", "minimum": 0, "maximum": 5}, DIGIT]}
    ),
    "one of integer and number": closed(
        x={"oneOf": [{"type": "integer", "maximum": 9, "minimum": 0}, {"enum": [0.5]}]}
    ),
    "one of open objects": {
        "oneOf": [
            optional(["a"], a=DIGIT, b=FLAG),
            optional(["b"], a=DIGIT, b=FLAG),
        ]
    },
    "one of constants": {"oneOf": [{"const": "a"}, {"const": "b"}, {"const": 1}]},
    "nested": closed(x=either(either(DIGIT, FLAG), either(WORD, {"const": None}))),
    "types": closed(x={"type": ["integer", "null", "boolean"]}),
    "bounded types": closed(
        x={"type": ["integer", "string"], "minimum": 1, "maximum": 5, "maxLength": 3}
    ),
    "of arrays": closed(x=either(several(DIGIT, 3, 1), several(FLAG, 2, 1))),
    "enum or pattern": closed(x=either({"enum": ["abc", 7]}, WORD)),
    "all of one": closed(x={"allOf": [DIGIT]}),
    "all of two": closed(
        x={"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 7}]}
    ),
    "all of objects": {
        "allOf": [
            {"type": "object", "properties": {"a": DIGIT}, "required": ["a"]},
            {"type": "object", "properties": {"b": FLAG}, "required": ["b"]},
        ]
    },
    "any beside properties": {**closed(a=DIGIT), "anyOf": [{"required": ["a"]}]},
}
PATTERNS: dict[str, Schema] = {
    "anchored": matching("^[A-F0-9]{2}(-[A-F0-9]{2}){2}$"),
    "loose": {"type": "string", "pattern": "abc"},
    "only a beginning": closed(x={"type": "string", "pattern": "^ab"}),
    "only an end": closed(x={"type": "string", "pattern": "yz$"}),
    "anchors in branches": matching("^a[0-9]$|^b[a-c]$"),
    "alternatives": matching("^(red|green|blue|)$"),
    "digits": matching(r"^\d{3}\.\d{1,2}$"),
    "word characters": matching(r"^\w{1,5}$"),
    "negated": matching("^[^a-z]{2}$"),
    "umlauts": matching("^[ä-ü]{1,4}$"),
    "code points": matching("^\\u00e9{1,3}$"),
    "beyond latin": matching("^[а-я]{1,3}$"),
    "no quotes": matching('^[^"]{1,3}$'),
    "no letters but umlauts": matching("^[^a-zäöü]{2}$"),
    "quotes": matching(r'^"a\\b"$'),
    "newline": matching(r"^a\nb$"),
    "dots": matching("^.{1,3}$"),
    "lookahead": matching("^(?=a)ab$"),
    "word boundary": matching(r"^ab\b"),
    "group of groups": matching("^(([ab]{1,2})(c?)){1,3}$"),
    "repetition in an optional part": matching("^a(x[0-9]{1,6})?b$"),
    "repetition in an alternative": matching("^(a{1,2}|[ab])$"),
    "with a length": closed(x={"type": "string", "pattern": "^a*$", "maxLength": 3}),
    "of names": {
        "type": "object",
        "patternProperties": {"^n[0-9]$": DIGIT},
        "additionalProperties": False,
        "maxProperties": 2,
    },
}
FORMATS: dict[str, Schema] = {
    name: closed(x={"type": "string", "format": name})
    for name in (
        *("date", "time", "date-time", "duration", "email", "hostname"),
        *("ipv4", "ipv6", "uri", "uuid"),
    )
}
UNICODE: dict[str, Schema] = {
    "names": named({"größe": DIGIT, "名前": FLAG, "ключ": {"type": "null"}}),
    "emoji": named({"🎣": {"enum": ["🐟", "👩‍🚀", "é"]}, "x": FLAG}),
    "values": closed(x={"enum": ["straße", "日本", "עברית", "a\u0301", "\u2028"]}),
    "escapes in names": named({'a"b': DIGIT, "c\\d": FLAG, "e/f": FLAG, "": DIGIT}),
    "control characters": named({"tab\tnew\nline": DIGIT, "\x01": FLAG}),
    "escapes in values": closed(x={"enum": ['"', "\\", "\n", "\t", "\x7f", "</a>"]}),
    "lengths": closed(x={"type": "string", "minLength": 2, "maxLength": 3}),
}
ENUMS: dict[str, Schema] = {
    "2000 texts": closed(x={"enum": [f"item {n * n}" for n in range(2000)]}),
    "2000 numbers": closed(x={"enum": [n * 7 for n in range(2000)]}),
    "500 letters": closed(x={"enum": [chr(0x4E00 + n) for n in range(500)]}),
    "of everything": {"enum": [None, True, 1.5, "a", [1, {"b": []}], {"c": "d"}, -0.0]},
    "with a type": closed(x={"type": ["string", "null"], "enum": ["a", None]}),
    "wider than its type": closed(x={"type": "string", "enum": ["a", 1, None]}),
}
DEPTH: dict[str, Schema] = {
    "20 objects": nested(DIGIT, 20, "a"),
    "12 objects of two": nested(closed(v=FLAG), 12, "some name"),
    "10 arrays": {**several(DIGIT, 1)},
    "16 unions": closed(x=DIGIT),
}
for _ in range(9):
    DEPTH["10 arrays"] = several(DEPTH["10 arrays"], 1, 1)
for _ in range(16):
    DEPTH["16 unions"] = either(DEPTH["16 unions"], {"type": "null"})
ARRAYS: dict[str, Schema] = {
    "exactly": several(DIGIT, 4, 4),
    "none": closed(x=several({}, 0)),
    "tuple": {
        "type": "array",
        "prefixItems": [DIGIT, FLAG],
        "items": False,
        "minItems": 1,
    },
    "tuple and more": {
        "type": "array",
        "prefixItems": [WORD],
        "items": FLAG,
        "minItems": 2,
        "maxItems": 4,
    },
    "longer tuple": {
        "type": "array",
        "prefixItems": [DIGIT, DIGIT, DIGIT],
        "items": False,
        "minItems": 3,
    },
    "older tuple": {
        "$schema": SEVENTH,
        "type": "array",
        "items": [DIGIT, FLAG],
        "additionalItems": False,
        "minItems": 2,
    },
    "of tuples": several(
        {"type": "array", "prefixItems": [FLAG, DIGIT], "items": False}, 2, 1
    ),
    "of anything": closed(x={"type": "array", "maxItems": 1}),
    "unique": {**several(DIGIT, 3, 2), "uniqueItems": True},
    "contains": {**several(DIGIT, 3, 1), "contains": {"const": 7}},
    "untyped": closed(x={"items": DIGIT, "maxItems": 2}),
}
NUMBERS: dict[str, Schema] = {
    "range": closed(x={"type": "integer", "minimum": -17, "maximum": 2048}),
    "exclusive": closed(
        x={"type": "integer", "exclusiveMinimum": 7, "exclusiveMaximum": 10}
    ),
    "only below": closed(x={"type": "integer", "maximum": -3, "minimum": -99999}),
    "large": closed(
        x={"type": "integer", "minimum": 10**12, "maximum": 10**12 + 10**9}
    ),
    "fraction": closed(x={"type": "number", "minimum": 0, "maximum": 1}),
    "open fraction": closed(
        x={"type": "number", "exclusiveMinimum": -0.5, "exclusiveMaximum": 0.25}
    ),
    "least only": closed(x={"type": "number", "minimum": 12.75}),
    "most only": closed(x={"type": "number", "exclusiveMaximum": -1.5}),
    "multiples": closed(
        x={"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 700}
    ),
    "cents": closed(
        x={"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 4}
    ),
    "fractional limits": closed(x={"type": "integer", "minimum": 0.5, "maximum": 2.5}),
    "older exclusive": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        **closed(
            x={
                "type": "integer",
                "minimum": 3,
                "exclusiveMinimum": True,
                "maximum": 5,
            }
        ),
    },
    "nothing between": closed(x={"type": "integer", "minimum": 3, "maximum": 2}),
}
CONSTANTS: dict[str, Schema] = {
    "object": {"const": {"a": [1, "b", None], "c": {"d": 1.5}}},
    "text": closed(x={"const": 'a "quoted" \\ and\nmore é🎣'}),
    "null": closed(x={"const": None}),
    "whole float": closed(x={"type": "integer", "const": 2.0}),
}
OBJECTS: dict[str, Schema] = {
    "twelve optional": optional(**{f"p{n}": DIGIT for n in range(12)}),
    "optional between": optional(["b", "d"], a=FLAG, b=DIGIT, c=FLAG, d=DIGIT, e=FLAG),
    "empty": closed(),
    "additional": {
        "type": "object",
        "properties": {"a": DIGIT},
        "required": ["a"],
        "additionalProperties": FLAG,
    },
    "only additional": {
        "type": "object",
        "additionalProperties": DIGIT,
        "minProperties": 1,
        "maxProperties": 2,
    },
    "counted": {**optional(a=DIGIT, b=DIGIT, c=DIGIT), "minProperties": 2},
    "few of many": {**optional(a=DIGIT, b=DIGIT, c=DIGIT), "maxProperties": 1},
    "names": {
        "type": "object",
        "propertyNames": {"pattern": "^[xyz]$"},
        "additionalProperties": DIGIT,
        "maxProperties": 2,
    },
    "unnamed and required": {
        "type": "object",
        "properties": {"a": DIGIT},
        "required": ["a", "b"],
        "additionalProperties": DIGIT,
    },
    "dependent": {
        **optional(a=DIGIT, b=FLAG),
        "dependentRequired": {"a": ["b"]},
    },
    "conditional": {**optional(a=DIGIT), "if": {"required": ["a"]}, "then": False},
    "not": closed(x={"type": "integer", "not": {"const": 3}}),
    "anything": {},
    "true": {**closed(x={}), "properties": {"x": True}},
    "never": closed(a=DIGIT, b={"type": "integer", "enum": []}),
    "nullable": closed(x={"type": "string", "enum": ["a"], "nullable": True}),
    "untyped": {"properties": {"a": DIGIT}, "required": ["a"]},
}

FAMILIES: dict[str, dict[str, Schema]] = {
    "recursion": RECURSION,
    "reference": REFERENCES,
    "union": UNIONS,
    "pattern": PATTERNS,
    "format": FORMATS,
    "unicode": UNICODE,
    "enum": ENUMS,
    "depth": DEPTH,
    "array": ARRAYS,
    "number": NUMBERS,
    "constant": CONSTANTS,
    "object": OBJECTS,
}
NASTY: dict[str, Schema] = {
    f"{family}: {name}": schema
    for family, schemas in FAMILIES.items()
    for name, schema in schemas.items()
}

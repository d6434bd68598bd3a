"""Values that a field of a request does not expect."""

from hypothesis import strategies as st

from hookline_faults.fuzzing.json_text import Json, Literal, Members, Nested, Repeated

INTEGERS = (
    0,
    1,
    -1,
    2,
    127,
    128,
    129,
    1024,
    1025,
    2047,
    2048,
    2049,
    4095,
    4096,
    65536,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64,
    10**30,
)
LITERALS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "1e-999",
    "1" * 400,
    "1" * 5000,
    "0." + "1" * 400,
    "1E+2",
    "01",
    "+1",
    ".5",
    "-",
    "-0",
    "-0.0",
    "0x10",
    "1_000",
    "True",
    "undefined",
    "",
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\u0000"',
    '"\\x41"',
    '"\t"',
    '"unended',
    "[1,]",
    "{,}",
    "{1:2}",
    "/* a */ 1",
)
TEXTS = (
    "",
    " ",
    "\x00",
    "\n",
    "a" * 257,
    "a" * 100_000,
    "é" * 1000,
    "\u202e",
    "\ufeff",
    "\U0001f468\u200d\U0001f469" * 50,
    "x\u0301" * 200,
    "\ufdfa" * 500,
    "<|im_start|>",
    "<|endoftext|>" * 100,
    "{{ 7 * 7 }}",
    "{% for a in range(10**9) %}{% endfor %}",
    "${jndi:ldap://a}",
    "%s%s%n",
    "../../etc/passwd",
    "\x1b[31mred\x1b[0m",
    "'; DROP TABLE",
    "a\r\nb: c",
    "\ud800",
    "((a+)+)+$",
)
FLOATS = (0.0, -0.0, 1.0, 1.5, -1.0, 1e-300, 1e300, 5e-324, 0.1, 2.0, 1e9)

_COUNTS = (2, 64, 129, 1025, 4097, 20_000)


def hostile_values() -> st.SearchStrategy[Json]:
    """Returns a strategy of values of all types and sizes."""
    scalar = _scalars()
    return st.one_of(
        scalar,
        scalar,
        st.lists(scalar, max_size=4),
        st.builds(Repeated, scalar_small(), st.sampled_from(_COUNTS)),
        st.builds(Nested, st.sampled_from((1, 17, 63, 100, 1000, 5000)), st.booleans()),
        st.builds(
            Members,
            st.lists(st.tuples(st.sampled_from(_KEYS), scalar), max_size=4),
        ),
    )


_KEYS = ("", "a", "1", "-1", "4096", "99999999999999999999", "a.b", "\x00", "é", "type")


def _scalars() -> st.SearchStrategy[Json]:
    return st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from(INTEGERS),
        st.integers(-(2**70), 2**70),
        st.sampled_from(FLOATS),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(TEXTS),
        st.text(max_size=20),
        st.sampled_from([Literal(each) for each in LITERALS]),
    )


def scalar_small() -> st.SearchStrategy[Json]:
    """Returns a strategy of values to repeat many times."""
    return st.sampled_from(
        (0, 1, -1, 5, 4095, 10**6, "a", "", "ab c", None, True, 0.5, [1], [], "\u2603")
    )

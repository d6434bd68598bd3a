"""How clients of `/v1/responses` know calls: the type of the item, and two names.

The model knows a tool by one name, and each as a function.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

CUSTOM_INPUT = "input"
"""The only argument of the function that a custom tool becomes."""

DEFAULT_NAMESPACE = "functions"
"""The namespace of tools that have no other, in which Codex wraps them."""

TOOL_SEARCH = "tool_search"
"""Name of the function that a client's search for tools becomes."""

_UNUSUAL = re.compile(r"[^A-Za-z0-9_.-]")

CallKind = Literal["function_call", "custom_tool_call", "tool_search_call"]


@dataclass(frozen=True, slots=True)
class CallForm:
    """What the client gets for a call of one tool.

    Attributes:
        name: The tool's name, as the client defined it.
        namespace: The namespace of that name, or None.
        kind: The type of the item.
    """

    name: str
    namespace: str | None = None
    kind: CallKind = "function_call"


@dataclass(frozen=True, slots=True)
class CallForms:
    """The forms of all tools of one request.

    Attributes:
        known: Name for the model → form.
        aliases: Other names that a model may write → name for the model.
    """

    known: Mapping[str, CallForm] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    def of(self, name: str) -> CallForm:
        """Returns the form of a call, given the name that the model wrote."""
        found = self.model_name(name)
        return CallForm(name) if found is None else self.known[found]

    def model_name(self, name: str, namespace: str | None = None) -> str | None:
        """Returns the name for the model of the tool that a client or model names."""
        joined = joined_name(namespace, name)
        return joined if joined in self.known else self.aliases.get(joined)


NO_FORMS = CallForms()


def call_forms(known: Mapping[str, CallForm]) -> CallForms:
    """Returns the forms of tools, given their names for the model.

    A tool of a namespace is also found by its own name, if no other has it.
    """
    found: dict[str, list[str]] = {}
    for name, form in known.items():
        for alias in _aliases(form):
            found.setdefault(alias, []).append(name)
    aliases = {
        alias: names[0]
        for alias, names in found.items()
        if len(names) == 1 and alias not in known
    }
    return CallForms(known, aliases)


def joined_name(namespace: str | None, name: str) -> str:
    """Returns the name under which the model knows a tool, as Codex joins them."""
    if not namespace or namespace in (DEFAULT_NAMESPACE, name):
        return name
    prefix = _UNUSUAL.sub("_", namespace)
    is_joined = prefix.endswith("_") or name.startswith("_")
    return prefix + ("" if is_joined else "__") + name


def _aliases(form: CallForm) -> Iterator[str]:
    yield form.name
    yield f"{form.namespace or DEFAULT_NAMESPACE}.{form.name}"

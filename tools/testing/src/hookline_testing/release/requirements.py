"""Tells what a distribution of ours needs, ours and that of others apart.

An image installs the latter first, in a layer that our own changes leave as it is.
"""

from collections.abc import Iterable
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hookline_testing.distributions import Distributions


class Needed(NamedTuple):
    """Requirements, sorted, each once.

    Attributes:
        ours: With the versions of the checkout.
        others: As they are declared.
    """

    ours: list[str]
    others: list[str]


def needed(distributions: Distributions, names: Iterable[str]) -> Needed:
    """Returns all that is needed.

    Args:
        distributions: Ours.
        names: Some of ours, with extras in brackets.
    """
    ours: set[str] = set()
    others: set[str] = set()
    seen: set[tuple[str, str]] = set()
    ahead = [Requirement(name) for name in names]
    while ahead:
        requirement = ahead.pop()
        name = canonicalize_name(requirement.name)
        if name not in distributions:
            others.add(str(requirement))
            continue
        project = distributions[name].table["project"]
        ours.add(f"{name}=={project['version']}")
        for extra in ("", *sorted(requirement.extras)):
            if (name, extra) not in seen:
                seen.add((name, extra))
                extras = project.get("optional-dependencies", {})
                lines = extras[extra] if extra else project.get("dependencies", ())
                ahead += map(Requirement, lines)
    return Needed(sorted(ours), sorted(others))

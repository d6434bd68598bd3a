"""Tells what of others a distribution of ours needs.

An image installs this first, in a layer that our own changes leave as it is.
"""

from collections.abc import Iterable

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hookline_testing.distributions import Distributions


def third_party(distributions: Distributions, names: Iterable[str]) -> list[str]:
    """Returns the requirements, sorted, each once.

    Args:
        distributions: Ours.
        names: Some of ours, with extras in brackets.
    """
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    ahead = [Requirement(name) for name in names]
    while ahead:
        requirement = ahead.pop()
        name = canonicalize_name(requirement.name)
        if name not in distributions:
            found.add(str(requirement))
            continue
        project = distributions[name].table["project"]
        for extra in ("", *sorted(requirement.extras)):
            if (name, extra) not in seen:
                seen.add((name, extra))
                extras = project.get("optional-dependencies", {})
                lines = extras[extra] if extra else project.get("dependencies", ())
                ahead += map(Requirement, lines)
    return sorted(found)

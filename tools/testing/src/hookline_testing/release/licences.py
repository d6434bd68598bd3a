"""Tells the licences of what is installed with a distribution, and refuses some."""

import re
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PERMISSIVE = frozenset(
    {
        *("0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"),
        *("BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CNRI-Python"),
        *("HPND", "ISC", "MIT", "MIT-0", "PSF-2.0", "Unlicense", "Zlib"),
    }
)
"""SPDX identifiers of licences that ask for no more than their notice."""

EXCEPTIONS = {
    "certifi": "MPL-2.0",  # a list of authorities, which nobody changes
    "shtab": "MPL-2.0",
    "tqdm": "MPL-2.0 AND MIT",
}
"""Licences of files that must stay open if they are changed. They are not changed."""

_SPELLINGS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "apache-2.0": "Apache-2.0",
}
"""What metadata say where they have no expression."""


def installed_with(names: Iterable[str]) -> dict[str, str]:
    """Returns the licences of some distributions and all that they need, by name.

    Those of Hookline have one licence, and are left out.

    Args:
        names: Distributions, with extras in brackets.

    Raises:
        PackageNotFoundError: One of `names` is not installed.
    """
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    ahead = [Requirement(name) for name in names]
    for each in ahead:
        distribution(each.name)
    while ahead:
        requirement = ahead.pop()
        for extra in ("", *sorted(requirement.extras)):
            key = (canonicalize_name(requirement.name), extra)
            if key in seen:
                continue
            seen.add(key)
            try:
                package = distribution(requirement.name)
            except PackageNotFoundError:  # of an extra, or of another system
                continue
            if not key[0].startswith("hookline"):
                found[key[0]] = licence_of(package)
            ahead += _needs(package, extra)
    return dict(sorted(found.items()))


def licence_of(package: Distribution) -> str:
    """Returns an SPDX expression, or what the metadata have instead of one."""
    metadata = package.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    told = [
        each.rpartition(" :: ")[2]
        for each in metadata.get_all("Classifier") or ()
        if each.startswith("License ::") and each != "License :: OSI Approved"
    ]
    if not told:
        text = metadata["License"] if "License" in metadata else "unknown"  # noqa: SIM401
        told = [text.strip().partition("\n")[0]]
    return " AND ".join(sorted({_SPELLINGS.get(each, each) for each in told}))


def refusal(name: str, licence: str) -> str:
    """Returns why a licence may not be distributed with Hookline; empty if it may."""
    if EXCEPTIONS.get(name) == licence or _is_permissive(licence):
        return ""
    return f"{name}: {licence} is not among the permissive licences"


def _is_permissive(expression: str) -> bool:
    """Whether one of the alternatives asks for nothing; in brackets all count."""
    if "(" in expression:
        parts = re.split(r" AND | OR ", expression.replace("(", "").replace(")", ""))
        return PERMISSIVE.issuperset(parts)
    alternatives = expression.split(" OR ")
    return any(PERMISSIVE.issuperset(each.split(" AND ")) for each in alternatives)


def _needs(package: Distribution, extra: str) -> list[Requirement]:
    lines = map(Requirement, package.requires or ())
    return [
        each
        for each in lines
        if each.marker is None or each.marker.evaluate({"extra": extra})
    ]

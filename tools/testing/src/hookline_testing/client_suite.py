"""The public clients that are tested, and what is tried with each."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "tests" / "clients"
"""Where the list, the programs and the pinned packages are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A package that speaks to servers, and the program that tries it.

    Attributes:
        name: Its name in the documentation.
        package: Its name in the registry.
        installed_from: Pinned packages: a list for pip, or a `package.json`.
        program: The program that uses it.
        features: What the program tries, by the names of `Suite.features`.
    """

    name: str
    package: str
    installed_from: Path
    program: Path
    features: tuple[str, ...]

    @property
    def version(self) -> str:
        """The pinned version.

        Raises:
            LookupError: The package is not pinned.
        """
        text = self.installed_from.read_text("utf-8")
        if self.installed_from.suffix == ".json":
            return str(json.loads(text)["dependencies"][self.package])
        pin = re.search(rf"^{re.escape(self.package)}==(\S+)$", text, re.MULTILINE)
        if pin is None:
            raise LookupError(f"{self.installed_from} does not pin {self.package}")
        return pin[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """All clients.

    Attributes:
        features: What a client may do: a name, and the words for it.
        clients: The clients, each with some of the features.
    """

    features: Mapping[str, str]
    clients: tuple[Client, ...]

    def table(self) -> str:
        """Returns features × clients as Markdown."""
        heads = " | ".join(f"{each.name}<br>{each.version}" for each in self.clients)
        lines = [f"| | {heads} |", "|---" * (len(self.clients) + 1) + "|"]
        for feature, words in self.features.items():
            marks = ("✓" if feature in each.features else "" for each in self.clients)
            lines.append(f"| {words} |{'|'.join(marks)}|")
        return "\n".join(lines)


def read_suite() -> Suite:
    """Reads `clients.yaml`."""
    listed = yaml.safe_load((FOLDER / "clients.yaml").read_text("utf-8"))
    clients = tuple(
        Client(
            name=each["name"],
            package=each["package"],
            installed_from=FOLDER / "packages" / each["installed_from"],
            program=FOLDER / "programs" / each["program"],
            features=tuple(each["features"]),
        )
        for each in listed["clients"]
    )
    return Suite(features=listed["features"], clients=clients)

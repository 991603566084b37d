"""The mistakes that agents are known to make, made on purpose: a guard against one can then be seen to work."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from widelane.errors import UsageError


class Mistake(StrEnum):
    """One known mistake. Each is made by a conversation as a whole, until the harness says what is wrong."""

    INVENTED_FILES = "invented-files"
    """The plan names files that do not exist. A schema with an enum of the real ones leaves no room for it."""
    COARSE_SUBTASKS = "coarse-subtasks"
    """The plan packs all files into a few subtasks, each too large for a worker's step budget."""
    REPEATED_CALL = "repeated-call"
    """A worker reads the same file again and again, until it is told that the result has not changed."""
    RESEARCH_WITHOUT_WRITING = "research-without-writing"
    """A worker lists, searches and reads without end, until it is told that it has written nothing."""
    DRIFTING_NAMES = "drifting-names"
    """Helpers go by another name in every worker's text, so that the parts do not fit together."""
    PROSE_INSTEAD_OF_FILE = "prose-instead-of-file"
    """A worker says its document instead of writing the file, until it is told that the file is missing."""
    TRUSTS_EMPTY_SEARCH = "trusts-empty-search"
    """A worker searches a file instead of reading it, and takes an empty result for an empty file."""
    MALFORMED_ARGUMENTS = "malformed-arguments"
    """A worker's first write lacks a required argument."""


@dataclass(frozen=True, slots=True)
class Habits:
    """Which conversations make which mistakes.

    Attributes:
        rates: share of the conversations that make a mistake, 0 to 1; those left out are never made.
        seed: of the simulated server.
    """

    rates: Mapping[Mistake, float] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        for mistake, rate in self.rates.items():
            if not 0 <= rate <= 1:
                raise UsageError(f"The rate of {Mistake(mistake).value} is {rate}; it must lie between 0 and 1.")

    def has(self, mistake: Mistake, opening: str) -> bool:
        """Whether the conversation that opens so makes this mistake: the same in each of its turns."""
        return self.rng(opening, mistake.value).random() < self.rates.get(mistake, 0.0)

    def rng(self, opening: str, purpose: str) -> random.Random:
        """A generator that is the same in every turn of a conversation."""
        digest = hashlib.blake2b(opening.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return random.Random(f"{self.seed}/{purpose}/{digest}")


def parse_mistakes(text: str) -> dict[Mistake, float]:
    """What a person means by `invented-files,repeated-call=0.3` or `all`; 1 where no rate is stated.

    Raises:
        UsageError: a mistake is not known, or a rate is no number from 0 to 1.
    """
    rates: dict[Mistake, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, stated = part.partition("=")
        try:
            rate = float(stated or 1)
            found = list(Mistake) if name == "all" else [Mistake(name)]
        except ValueError:
            raise UsageError(
                f"The mistake {part!r} is not understood; known are {', '.join(Mistake)} and all, "
                "each perhaps with a rate: repeated-call=0.3."
            ) from None
        rates.update(dict.fromkeys(found, rate))
    Habits(rates)  # checks them
    return rates


_SYNONYMS: Final = (
    ("get", "fetch", "load", "read", "obtain"), ("make", "build", "create", "new"), ("parse", "decode", "interpret"),
    ("check", "validate", "verify", "ensure"), ("write", "save", "store", "dump"), ("send", "post", "dispatch"),
)  # fmt: skip


def drifted(name: str, rng: random.Random) -> str:
    """Another name for the same helper."""
    head, mark, rest = name.partition("_")
    group = next((group for group in _SYNONYMS if head in group), None)
    if group is not None and rng.random() < 0.5:
        return rng.choice([word for word in group if word != head]) + mark + rest
    variants = [f"{name}_helper", f"_{name}_impl", f"do_{name}", f"{name}_v2"]
    camel = head + "".join(part.capitalize() for part in rest.split("_"))
    return rng.choice([*variants, camel] if camel != name else variants)

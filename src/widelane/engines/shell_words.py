"""Shell words that remember how they were typed, so that a pasted command can be changed in one place only."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from widelane.errors import UsageError

_SECRET_NAME = re.compile(
    r"(?:^|[-_]|PG)(?:(?:api[-_]?|access[-_]?)?keys?(?:[-_]id)?|token|hft|pass(?:word|wd)?|secret|credentials?|auth|pat)"
    r"(?:[-_]?\d+)?$",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(r"(?P<before>(?:--env=|-e)?)(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_INNER_SECRET = re.compile(
    r"(?P<before>(?:authorization:\s*(?:bearer\s+)?|bearer\s+|--?[\w-]*(?:api[-_]?keys?|token|secret|password)[= ]))"
    r"[^\s\"']+",
    re.IGNORECASE,
)
"""A key inside a word: a header (`Authorization: Bearer …`) or a command within quotes."""
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")


@dataclass(frozen=True, slots=True)
class Word:
    """One word: `raw` as typed, `value` as the program gets it."""

    raw: str
    value: str

    @classmethod
    def of(cls, value: str) -> Word:
        """The word that gives `value`, quoted as needed."""
        return cls(shlex.quote(value), value)


def split(text: str) -> list[Word]:
    """The words of a command; a backslash before a line end joins lines.

    Raises:
        UsageError: a quote is never closed.
    """
    text = re.sub(r"\\\r?\n", " ", text)
    words: list[Word] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        end, value = _word(text, at)
        words.append(Word(text[at:end], value))
        at = end
    return words


def is_secret_name(name: str) -> bool:
    """Whether a flag or environment name stands for a key, token or password."""
    return _SECRET_NAME.search(name.lstrip("-")) is not None


def without_secrets(words: list[Word]) -> list[Word]:
    """The same words with keys, tokens and passwords taken out; an environment reference stands in their place."""
    kept: list[Word] = []
    hide_next: str | None = None
    first = False  # a key may begin with a dash, and one flag may take several keys (vLLM)
    for word in words:
        if hide_next is not None and (first or not word.value.startswith("-")):
            kept.append(Word(hide_next, hide_next))
            first = False
            continue
        hide_next = None
        flag, equals, _ = word.value.partition("=")
        if flag.startswith("-") and is_secret_name(flag):
            stand_in = f'"${_environment_name(flag)}"'
            if equals:
                kept.append(Word(f"{flag}={stand_in}", f"{flag}={stand_in}"))
                continue
            hide_next, first = stand_in, True
        kept.append(_without_secret_inside(word))
    return kept


def _without_secret_inside(word: Word) -> Word:
    assignment = _ASSIGNMENT.fullmatch(word.value)
    if assignment and is_secret_name(assignment["name"]):
        shown = f'{assignment["before"]}{assignment["name"]}="${assignment["name"]}"'
        return Word(shown, shown)
    inside = _INNER_SECRET.sub(r"\g<before>HIDDEN", word.value)
    if inside != word.value:
        return Word.of(inside)
    if _URL_LOGIN.search(word.value):
        return Word.of(_URL_LOGIN.sub("USER:PASSWORD", word.value))
    return word


def _environment_name(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_").upper()


def _word(text: str, start: int) -> tuple[int, str]:
    """Where the word that begins at `start` ends, and its value."""
    value: list[str] = []
    quote = ""
    at = start
    while at < len(text):
        char = text[at]
        if quote:
            if char == quote:
                quote = ""
            elif char == "\\" and quote == '"' and text[at + 1 : at + 2] in ('"', "\\", "$", "`"):
                at += 1
                value.append(text[at])
            else:
                value.append(char)
        elif char in "'\"":
            quote = char
        elif char == "\\" and at + 1 < len(text):
            at += 1
            value.append(text[at])
        elif char.isspace():
            break
        else:
            value.append(char)
        at += 1
    if quote:
        raise UsageError(
            f"cannot read the launch command: the quote {quote} at {text[start : start + 30]!r} never closes"
        )
    return at, "".join(value)

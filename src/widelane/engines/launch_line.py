"""A start command, pasted or read from a process → its settings by name; and the same command with some changed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from widelane.engines.launch_program import find_program
from widelane.engines.shell_words import Word, split, without_secrets
from widelane.plan.launch.flags import FLAGS, Flag, spelled

Setting = str | bool
"""A value as written; True or False for a switch."""

ENVIRONMENT_PREFIXES = ("LLAMA_ARG_", "VLLM_", "OLLAMA_", "SGLANG_")
"""Environment names that are settings of an engine; nothing else is kept."""

_ENDS_COMMAND = re.compile(r"(\|\|?|&&?|;|\d?>>?.*|<.*)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a setting stands: `words[flag]`, its value in `words[value]` (None for a switch or `--flag=value`)."""

    name: str
    flag: int
    value: int | None
    inline: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchLine:
    """A start command, taken apart.

    Attributes:
        engine: engine it starts, None when the program is not known.
        words: as typed, keys and tokens taken out.
        settings: by the names of `plan.launch.flags`, environment included; the command line goes before it.
        environ: settings that the environment makes; never a key or token.
        wrapper: program that starts the engine for its user (`docker`, `ramalama`), None when started directly.
    """

    engine: str | None
    words: tuple[Word, ...]
    settings: Mapping[str, Setting]
    environ: Mapping[str, str] = field(default_factory=dict)
    wrapper: str | None = None
    _program: int = 0
    _end: int = 0
    _places: tuple[_Place, ...] = ()

    @property
    def text(self) -> str:
        """The command, keys and tokens taken out."""
        return " ".join(word.raw for word in self.words)

    def number(self, name: str) -> int | None:
        """A setting as a whole number, None when it is absent or is none."""
        value = self.settings.get(name)
        return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d+", value) else None

    def changed(self, settings: Mapping[str, Setting | None], environ: Mapping[str, str] | None = None) -> str:
        """The command with these settings instead.

        A value replaces an old one where it stands, in its spelling; a new one goes to the end. None takes a setting
        out.
        """
        words: list[Word | None] = list(self.words)
        added: list[Word] = []
        table = FLAGS.get(self.engine or "", {})
        for name, value in settings.items():
            places = [place for place in self._places if place.name == name]
            keep = places[-1] if places and value is not None else None
            for place in places:
                if place is not keep:
                    words[place.flag] = None
                    if place.value is not None:
                        words[place.value] = None
            if keep is not None and value is not None:
                _replace(words, keep, table.get(name, Flag()), value)
            elif value is not None:
                added += _flag_words(table.get(name, Flag((f"--{name.replace('_', '-')}",))), value)
        words[self._end : self._end] = added
        _set_environ(words, environ or {}, self.wrapper, self._program)
        return " ".join(word.raw for word in words if word is not None)


def parse_launch(text: str, *, engine: str | None = None) -> LaunchLine:
    """The settings of a start command.

    Args:
        engine: engine that the command is known to start; it decides where the program does not.

    Raises:
        UsageError: a quote never closes.
    """
    words = without_secrets(split(text))
    program = find_program([word.value for word in words])
    of, start = program.engine or engine, program.arguments
    end = next(
        (at for at in range(start, len(words)) if _ENDS_COMMAND.fullmatch(words[at].raw)),
        len(words),
    )
    settings, places = _read(words[:end], start, FLAGS.get(of or "", {}))
    typed = _environ_of([word.value for word in words[:start]])
    kept = {name: value for name, value in typed.items() if is_engine_setting(name)}
    return LaunchLine(
        engine=of,
        words=tuple(words),
        settings={
            **_from_environ(kept, FLAGS.get(of or "", {})),
            **settings,
            **_model(words, start, end, of, settings),
        },
        environ=kept,
        wrapper=program.wrapper,
        _program=program.at,
        _end=end,
        _places=tuple(places),
    )


def of_process(argv: Sequence[str], environ: Mapping[str, str]) -> LaunchLine:
    """The launch line of a running process: its engine settings from the environment stand before the program."""
    kept = [f"{name}={shlex.quote(value)}" for name, value in environ.items() if is_engine_setting(name)]
    return parse_launch(" ".join([*kept, shlex.join(argv)]))


def is_engine_setting(name: str) -> bool:
    """Whether an environment name is a setting of an engine, and no key or token."""
    return name.startswith(ENVIRONMENT_PREFIXES) and not re.search(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", name)


def _read(words: Sequence[Word], start: int, table: Mapping[str, Flag]) -> tuple[dict[str, Setting], list[_Place]]:
    on = {spelled(name): (setting, flag) for setting, flag in table.items() for name in flag.spellings}
    off = {spelled(name): setting for setting, flag in table.items() for name in flag.off}
    settings: dict[str, Setting] = {}
    places: list[_Place] = []
    at = start
    while at < len(words):
        written, equals, inline = words[at].value.partition("=")
        flag = spelled(written)
        setting, known = on.get(flag, (None, None))
        if flag in off:
            settings[off[flag]] = False
            places.append(_Place(off[flag], at, None, False))
        elif setting or (flag.startswith("-") and not _is_number(flag) and flag.strip("-")):
            name = setting or flag.lstrip("-").replace("-", "_")
            takes_value = not (known.switch if known else False)
            value_at = at + 1 if takes_value and not equals and _has_value(words, at + 1) else None
            value = inline if equals else words[value_at].value if value_at is not None else True
            places.append(_Place(name, at, value_at, bool(equals)))
            if value_at is not None and isinstance(value, str):
                at, value = _whole_braces(words, value_at, value)
            settings[name] = value
        at += 1
    return settings, places


def _has_value(words: Sequence[Word], at: int) -> bool:
    return at < len(words) and (not words[at].value.startswith("-") or _is_number(words[at].value))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-\d+(\.\d+)?", text) is not None


def _whole_braces(words: Sequence[Word], at: int, value: str) -> tuple[int, str]:
    """A JSON value that was pasted without its quotes: the words up to the closing brace."""
    while value.count("{") > value.count("}") and at + 1 < len(words):
        at += 1
        value = f"{value} {words[at].value}"
    return at, value


def _model(
    words: Sequence[Word], start: int, end: int, engine: str | None, settings: Mapping[str, Setting]
) -> dict[str, Setting]:
    """The model where it is named without a flag (`vllm serve MODEL`)."""
    first = words[start].value if start < end else "-"
    if engine in ("vllm", "sglang", "tensorrt-llm") and "model" not in settings and not first.startswith(("-", "{")):
        return {"model": first}
    return {}


def _environ_of(values: Sequence[str]) -> dict[str, str]:
    """`NAME=value` before the program, and `-e NAME=value` of a container."""
    pairs = [*values]
    pairs += [value.removeprefix("--env=") for value in values if value.startswith("--env=")]
    matches = (_ASSIGNMENT.fullmatch(value) for value in pairs)
    return {match[1]: match[2] for match in matches if match}


def _from_environ(environ: Mapping[str, str], table: Mapping[str, Flag]) -> dict[str, Setting]:
    names = {flag.environ: (setting, flag) for setting, flag in table.items() if flag.environ}
    read: dict[str, Setting] = {}
    for name, value in environ.items():
        if name in names:
            setting, flag = names[name]
            read[setting] = value.lower() in ("1", "true", "on", "enabled", "yes") if flag.switch else value
    return read


def _replace(words: list[Word | None], place: _Place, flag: Flag, value: Setting) -> None:
    old = words[place.flag]
    assert old is not None
    if isinstance(value, bool):
        names = flag.spellings if value else flag.off
        words[place.flag] = Word.of(names[0]) if names else None
        if place.value is not None:
            words[place.value] = None
    elif place.inline:
        written = old.value.partition("=")[0]
        words[place.flag] = Word(f"{written}={shlex.quote(value)}", f"{written}={value}")
    elif place.value is not None:
        words[place.value] = Word.of(value)
    else:
        words[place.flag] = Word(f"{old.raw} {shlex.quote(value)}", f"{old.value} {value}")


def _flag_words(flag: Flag, value: Setting) -> list[Word]:
    if isinstance(value, bool):
        names = flag.spellings if value else flag.off
        return [Word.of(names[0])] if names else []
    return [Word.of(flag.spellings[0]), Word.of(value)]


def _set_environ(words: list[Word | None], environ: Mapping[str, str], wrapper: str | None, program: int) -> None:
    for name, value in environ.items():
        assignment = Word(f"{name}={shlex.quote(value)}", f"{name}={value}")
        begins = (f"{name}=", f"--env={name}=")
        old = [at for at, word in enumerate(words) if word is not None and word.value.startswith(begins)]
        if old and (word := words[old[-1]]) is not None:
            before = "--env=" if word.value.startswith("--env=") else ""
            words[old[-1]] = Word(before + assignment.raw, before + assignment.value)
        elif wrapper == "docker":
            words[program + 1 : program + 1] = [Word("-e", "-e"), assignment]
        else:
            words.insert(program, assignment)

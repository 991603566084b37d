"""Collects the words of one command with their reasons, and what was deliberately left out."""

from __future__ import annotations

import shlex
from dataclasses import replace

from widelane.plan.launch.changes import CHECKED_ON
from widelane.plan.launch.choice import LaunchChoice
from widelane.plan.launch.flags import FLAGS
from widelane.plan.report import Argument, LaunchPlan, LeftOut


class CommandBuilder:
    """Grows one engine's command. Settings go by their names in `flags`; the first spelling is the one printed."""

    def __init__(self, choice: LaunchChoice) -> None:
        self._choice = choice
        self._flags = FLAGS[choice.engine]
        self._argv: list[Argument] = []
        self._environ: list[Argument] = []
        self._left_out: list[LeftOut] = []
        self._notes: list[str] = []
        self._afterwards: list[str] = []

    def program(self, *words: str, reason: str) -> None:
        """The program's own words; the reason stands beside the first."""
        for word in words:
            self._argv.append(argument(None, word, reason if word is words[0] else ""))

    def word(self, value: str, reason: str) -> None:
        """A word without a flag, such as the model of `vllm serve MODEL`."""
        self._argv.append(argument(None, value, reason))

    def set(self, setting: str, value: str | int | float | None, reason: str, *, spelling: str | None = None) -> None:
        """A flag with its value, or a switch (`value` None)."""
        flag = spelling or self._flags[setting].spellings[0]
        self._argv.append(argument(flag, None if value is None else str(value), reason))

    def argument(self, part: Argument) -> None:
        """A flag that is made already."""
        self._argv.append(part)

    def environ(self, name: str, value: str | int, reason: str) -> None:
        """A variable that the server's environment must hold."""
        self._environ.append(argument(name, str(value), reason))

    def leave_out(self, flag: str, reason: str) -> None:
        """A flag that one might expect here, and why it is not set."""
        self._left_out.append(LeftOut(flag=flag, reason=reason))

    def note(self, sentence: str) -> None:
        """Something to know before starting it."""
        self._notes.append(sentence)

    def afterwards(self, command: str) -> None:
        """A command to run once the server answers."""
        self._afterwards.append(command)

    def plan(self) -> LaunchPlan:
        """The finished command."""
        return finished(
            LaunchPlan(
                engine=self._choice.engine,
                version=self._choice.version,
                checked_on=CHECKED_ON[self._choice.engine],
                environ=tuple(self._environ),
                argv=tuple(self._argv),
                left_out=tuple(self._left_out),
                command="",
                host=self._choice.host,
                port=self._choice.listen_port,
                afterwards=tuple(self._afterwards),
                notes=tuple(self._notes),
            )
        )


def argument(flag: str | None, value: str | None, reason: str) -> Argument:
    """One flag of a command."""
    return Argument(flag=flag, value=value, reason=reason)


def words_of(plan: LaunchPlan) -> list[str]:
    """The command as a list of words, program first."""
    return [word for part in plan.argv for word in (part.flag, part.value) if word is not None]


def finished(plan: LaunchPlan) -> LaunchPlan:
    """The same with `command` made from its parts."""
    assignments = [f"{part.flag}={shlex.quote(part.value or '')}" for part in plan.environ]
    return replace(plan, command=" ".join([*assignments, shlex.join(words_of(plan))]))

"""What a piece of advice is made from: the finding's figures, and the change it comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from widelane.engines.launch_line import Setting
from widelane.engines.server_facts import ServerFacts

Known = Mapping[str, float | int | str | bool | None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What advice is given on.

    Attributes:
        known: figures of the finding by name: `slots` (wanted), `context` (tokens a sequence should hold), `depth`
            (draft tokens worth keeping), `cured_by_off` (switching thinking off cures it), `text` (a reply or template
            that shows the form of tool calls), `model_bytes`, …
    """

    facts: ServerFacts
    known: Known

    def number(self, name: str) -> int | None:
        """A figure of the finding as a whole number, None when it was not given."""
        value = self.known.get(name)
        return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    @property
    def slots_wanted(self) -> int:
        """Slots that the finding asks for; four times what there are when it names none, at least 8."""
        now = self.facts.slots.number
        return self.number("slots") or max(8, 4 * int(now or 2))

    @property
    def model(self) -> str:
        """All that is known of the model's name."""
        return str(self.facts.model.value or "")

    @property
    def version(self) -> str | None:
        """The server's version as it tells it, None when it does not."""
        value = self.facts.version.value
        return None if value is None else str(value)

    @property
    def cured_by_off(self) -> bool:
        """Whether the same request without thinking was answered well."""
        return bool(self.known.get("cured_by_off"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A change.

    Attributes:
        flag: the flags as they are typed, or the field of the request.
        settings: the same for the launch line, by the names of `plan.launch.flags`; None takes one out.
        environ: the same for the environment.
        checked_on: version on which the flag was seen to work, or whose source or documentation names it.
        by_request: the change is in the requests, not in the server's start.
        command: a whole line where it is not the changed launch line.
    """

    flag: str
    reason: str
    checked_on: str
    settings: Mapping[str, Setting | None] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    by_request: bool = False
    command: str | None = None


Adviser = Callable[[Asked], Advice | None]
"""Advice on one finding for one engine, None where nothing is known to help."""

THINKING_OFF = '"chat_template_kwargs": {"enable_thinking": false}'

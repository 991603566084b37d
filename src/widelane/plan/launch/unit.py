"""A systemd unit that starts the server at boot, starts it again when it dies, and lets it end in peace."""

from __future__ import annotations

from collections.abc import Sequence

from widelane.plan.launch.builder import words_of
from widelane.plan.report import Argument, LaunchPlan
from widelane.printable import is_plain, one_line

OPEN_FILES = 65536
"""Each request in flight holds a connection; the usual limit of 1024 is soon reached."""
STOP_GRACE_S = 30


def systemd_unit(
    plan: LaunchPlan, *, model: str, program: str | None = None, user: str | None = None, folder: str | None = None
) -> str:
    """The text of a `.service` file, every flag with its reason above it.

    Args:
        model: what the unit serves, in words.
        program: absolute path of the plan's program, which systemd wants; None leaves it to systemd's own search path.
        user: account to run as, None for a unit of a user's own.
        folder: where it runs, None for the account's home.
    """
    words = words_of(plan)
    command = [program or words[0], *words[1:]]
    lines = [
        f"# widelane launch: {plan.engine} {one_line(plan.version or 'of the newest known version')}",
        *_installation(plan, user),
        "[Unit]",
        f"Description={plan.engine} serving {_specifiers(one_line(model))}",
        "After=network-online.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        "Type=exec",
        *([f"User={user}"] if user else []),
        *([f"WorkingDirectory={_specifiers(folder)}"] if folder else []),
        *_environment(plan.environ),
        *_reasons(plan.argv),
        "ExecStart=" + " \\\n    ".join(_grouped(plan, command)),
        "Restart=on-failure",
        "RestartSec=10",
        "# The server's workers get the signal too, and are killed only when they do not end.",
        "KillMode=mixed",
        f"TimeoutStopSec={STOP_GRACE_S}",
        f"LimitNOFILE={OPEN_FILES}",
        "NoNewPrivileges=true",
        "PrivateTmp=true",
        "",
        "[Install]",
        f"WantedBy={'multi-user.target' if user else 'default.target'}",
    ]
    return "\n".join(lines) + "\n"


def quoted(word: str) -> str:
    """A word of ExecStart: systemd's own quoting, with `%` and `$` taken literally."""
    text = _specifiers(word).replace("$", "$$")
    if text and is_plain(text) and not any(char in text for char in " \"'\\;#"):
        return text
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    """Within quotes, as systemd reads it back: nothing ends the line, the quotes or the terminal's peace."""
    quotes = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(char if is_plain(char) else _escape(char) for char in quotes)


def _escape(char: str) -> str:
    """Its bytes in hexadecimal."""
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))


def _installation(plan: LaunchPlan, user: str | None) -> list[str]:
    name = plan.engine.replace(".", "-")
    place, ctl = ("/etc/systemd/system", "sudo systemctl") if user else ("~/.config/systemd/user", "systemctl --user")
    lines = [f"# Keep it as {place}/{name}.service, then: {ctl} daemon-reload && {ctl} enable --now {name}"]
    if plan.engine == "ollama":
        lines.append(
            "# Where Ollama's installer made a service, `systemctl edit ollama` with the Environment lines is enough."
        )
    return [*lines, *(f"# Once it answers: {one_line(command)}" for command in plan.afterwards), ""]


def _environment(environ: Sequence[Argument]) -> list[str]:
    lines: list[str] = []
    for part in environ:
        assignment = _escaped(_specifiers(f"{part.flag}={part.value}"))
        lines += [one_line(f"# {part.flag}: {part.reason}"), f'Environment="{assignment}"']
    return lines


def _reasons(argv: Sequence[Argument]) -> list[str]:
    return [one_line(f"# {part.flag or part.value}: {part.reason}") for part in argv if part.reason]


def _grouped(plan: LaunchPlan, command: Sequence[str]) -> list[str]:
    """The program's words on the first line, then one flag with its value a line."""
    own = sum(1 for _ in _leading(plan.argv))
    flags = [" ".join(quoted(word) for word in (part.flag, part.value) if word is not None) for part in plan.argv[own:]]
    return [" ".join(map(quoted, command[:own])), *flags]


def _leading(argv: Sequence[Argument]) -> Sequence[Argument]:
    own = 0
    while own < len(argv) and argv[own].flag is None:
        own += 1
    return argv[:own]


def _specifiers(text: str) -> str:
    """`%` begins a specifier in a unit."""
    return text.replace("%", "%%")

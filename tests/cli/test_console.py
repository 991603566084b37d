"""The terminal shows what strangers wrote; it never does what they wrote."""

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text

from widelane.cli.console import SafeConsole, Terminal


def shown(body: object) -> str:
    console = SafeConsole(file=io.StringIO(), force_terminal=True, width=60, legacy_windows=False)
    console.print(body)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_text_cannot_move_the_cursor_and_styles_still_work() -> None:
    grid = Table.grid()
    grid.add_row(Text("x\x1b]0;title\x07\x9b2J\u202e", style="bold"))
    text = shown(grid)
    assert "\x1b]0;" not in text and "\x9b" not in text and "\u202e" not in text
    assert "\x1b[1m" in text and "x\ufffd]0;title" in text


def test_a_line_of_a_log_is_no_markup(monkeypatch) -> None:
    terminal = Terminal()
    file = io.StringIO()
    monkeypatch.setattr(terminal, "err", Console(file=file, force_terminal=True, width=100))
    with terminal.progress("starting [/x]") as step:
        step.update(detail="<s>[INST] hello [/INST]")
    assert "[INST] hello [/INST]" in file.getvalue()


def test_a_closed_stdout_gets_no_document(monkeypatch, capsys) -> None:
    """`--json >&-`: Python has no stdout then."""
    monkeypatch.setattr("sys.stdout", None)
    Terminal().data("{}")
    assert capsys.readouterr().err == ""

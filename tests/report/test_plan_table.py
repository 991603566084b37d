"""What `widelane plan` and `widelane launch` show in a terminal: readable at 80 columns, nothing cut, no markup."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from tests.report import plan_samples as samples
from widelane.figures import unknown
from widelane.plan.report import Argument, LaunchReport, LeftOut, PlanReport
from widelane.report.launch_table import launch_table
from widelane.report.launch_view import launch_view
from widelane.report.plan_table import plan_table


def show(view: RenderableType, width: int = 80, *, colour: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, highlight=False, color_system="standard" if colour else None
    )
    console.print(view, crop=False)
    return out.getvalue()


def words(text: str) -> str:
    return " ".join(text.split())


def cells(text: str, first: str) -> list[str]:
    """The words of the table row that begins with this one."""
    return next(line.split() for line in text.split("\n") if line.split()[:1] == [first])


def launched(plan: PlanReport) -> LaunchReport:
    return LaunchReport(model=plan.model, device=plan.device, use=plan.use, launch=plan.launch)


@pytest.mark.parametrize("name", samples.ALL)
@pytest.mark.parametrize("width", [50, 60, 80, 120, 200])
def test_no_line_but_the_commands_is_too_wide_and_nothing_is_cut(name: str, width: int) -> None:
    report = samples.ALL[name]()
    text = show(plan_table(report), width)
    long = [line for line in text.split("\n") if len(line) > width]
    assert [line for line in long if report.launch.command not in line] == []
    assert "…" not in text


@pytest.mark.parametrize("name", samples.ALL)
def test_no_word_is_broken_at_80_columns(name: str) -> None:
    """Every word of every sentence stands whole somewhere: wrapping never cuts one."""
    report = samples.ALL[name]()
    seen = set(show(plan_table(report)).split()) | set(show(launch_table(report.launch)).split())
    sentences = [
        report.recommendation.sentence, *report.recommendation.why, report.width.sentence, *report.notes,
        *(lever.price for lever in report.levers), *(lever.title for lever in report.levers),
        *(one.reason for one in (*report.launch.argv, *report.launch.environ, *report.launch.left_out)),
    ]  # fmt: skip
    assert {word for sentence in sentences for word in sentence.split()} <= seen


@pytest.mark.parametrize("name", samples.ALL)
def test_plain_where_it_is_no_terminal_and_the_same_words_in_colour(name: str) -> None:
    plain, coloured = show(plan_table(samples.ALL[name]())), show(plan_table(samples.ALL[name]()), colour=True)
    assert "\x1b" not in plain
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_no_color_leaves_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    Console(file=out, width=80, force_terminal=True, color_system="standard").print(plan_table(samples.dense()))
    codes = {code for group in re.findall(r"\x1b\[([0-9;]*)m", out.getvalue()) for code in group.split(";")}
    assert codes <= {"0", "1", "2", ""}, "bold and dim are no colours"


def test_the_order_is_what_to_do_what_it_rests_on_what_else_and_how() -> None:
    text = show(plan_table(samples.dense(), page_path="plan.html"))
    names = (
        "Model", "Verdict", "Lanes to run", "Width", "batch", "Prefill", "Memory", "KV pool ", "Levers", "Command",
        "Report",
    )  # fmt: skip
    places = [text.index(name) for name in names]
    assert places == sorted(places)


def test_verdict_and_main_figures_stand_on_the_first_screen() -> None:
    first = "\n".join(show(plan_table(samples.dense())).split("\n")[:24])
    assert "Run 24 lanes on vLLM" in first
    assert re.search(r"All lanes together get +112 +tok/s +95\.0–131, predicted", first)
    assert re.search(r"A step doubles at +39 +requests", first)


def test_a_row_of_steps_has_its_parts_and_says_whether_the_pool_holds_it() -> None:
    text = show(plan_table(samples.dense()), 120)
    assert cells(text, "8") == ["8", "54.6", "(49.6–60.7)", "6.82", "147", "117", "17.6", "5.68", "2.08", "4.20", "yes"]
    assert cells(text, "64")[-1] == "no"


def test_the_smallest_parts_go_first_where_there_is_no_room_and_are_named() -> None:
    text = show(plan_table(samples.dense()), 80)
    assert "Too narrow for" in text
    assert re.search(r"batch +tok/s +tok/s +ms +ms +cache", text)


def test_a_part_of_the_memory_is_as_long_as_its_share() -> None:
    bars = {
        line.split("  ")[1]: line.count("█") for line in show(plan_table(samples.dense())).split("\n") if "█" in line
    }
    assert bars["KV pool"] > bars["weights"] > bars["reserve"] > bars["activations and graphs"] >= bars["free"] == 1


def test_what_does_not_fit_is_said() -> None:
    assert "✗ The parts need 205 GB; the device has 128 GB." in words(show(plan_table(samples.too_large())))


def test_levers_carry_a_sign_their_gain_what_they_buy_and_their_price() -> None:
    text = words(show(plan_table(samples.dense())))
    assert (
        "✓ ×1.71 Halve the recurrent state capacity 51 → 87 sequences --mamba-ssm-cache-dtype float16 "
        "--mamba-cache-dtype would change only the convolution part of the state." in text
    )
    assert "· ×1.62 Use 4-bit weights latency 7.9 → 12.8 tok/s Another checkpoint" in text
    assert "✗ ×0.905 Let 128 sequences decode together throughput 210 → 190 tok/s" in text
    assert "7.9 → 14.4 tok/s (gain 1.60–1.90)" in text
    assert "· – Reuse common prompt beginnings latency not known: depends on how much your prompts share" in text


def test_unknown_figures_have_their_reason_and_there_is_no_empty_table() -> None:
    text = words(show(plan_table(samples.not_known())))
    assert f"doubling batch and recommended rate: {samples.NO_BANDWIDTH}" in text
    assert "batch" not in text.split("Width")[1].split("Memory")[0]
    assert "Prefill" not in text


def test_an_unknown_size_has_no_bar() -> None:
    memory = [*samples.dense().memory[:1], replace(samples.dense().memory[1], bytes=unknown("bytes", "not estimated"))]
    text = show(plan_table(samples.dense(memory=memory)))
    assert re.search(r"activations and graphs +–\s*\n", text)
    assert "memory of activations and graphs: not estimated" in words(text)


def test_brackets_are_text_and_not_markup() -> None:
    recommendation = replace(samples.dense().recommendation, sentence="[bold]x[/bold]", why=("[/] [link=x]",))
    text = show(plan_table(samples.dense(recommendation=recommendation, notes=("[red]",))))
    assert "[bold]x[/bold]" in text and "[/] [link=x]" in text and "[red]" in text


def test_the_command_is_one_flag_a_line_and_one_line_to_copy() -> None:
    text = show(launch_table(samples.launch()))
    assert re.search(r"^  vllm serve +the engine *$", text, re.MULTILINE)
    assert re.search(r"^  --max-num-seqs 24 +lanes that keep a full pool below 1 % likely *$", text, re.MULTILINE)
    assert f"Command  {samples.launch().command}\n" in text


def test_a_flag_too_long_for_its_column_stands_above_its_reason() -> None:
    lines = show(launch_table(samples.launch())).split("\n")
    at = next(index for index, line in enumerate(lines) if line.strip().startswith("--speculative-config"))
    assert lines[at].strip() == """--speculative-config '{"method":"mtp","num_speculative_tokens":2}'"""
    assert lines[at + 1].strip() == "two drafted tokens a step from the MTP head"


def test_values_are_quoted_as_a_shell_needs_them() -> None:
    launch = samples.launch(
        environ=(Argument(flag="HF_HOME", value="/my models", reason="where they lie"),),
        argv=(
            Argument(flag=None, value="llama-server", reason="the engine"),
            Argument(flag="-m", value="/my models/a.gguf", reason="the model"),
        ),
        left_out=(LeftOut(flag="--mlock", reason="needs a limit raised"),),
    )
    text = show(launch_table(launch))
    assert "HF_HOME='/my models'" in text and "-m '/my models/a.gguf'" in text
    assert re.search(r"--mlock +needs a limit raised", text)


def test_variables_come_first_and_what_is_to_be_done_once_it_answers_last() -> None:
    text = show(launch_table(samples.moe().launch))
    places = [text.index(word) for word in ("OLLAMA_NUM_PARALLEL=24 ", "ollama serve  ", "Command", "Then")]
    assert places == sorted(places)
    assert "Then     ollama pull gpt-oss:120b" in text
    assert "! Ollama reads its settings from the environment" in text


def test_launch_says_what_the_command_is_for() -> None:
    text = words(show(launch_view(launched(samples.dense()))))
    assert text.startswith("Model Qwen/Qwen3.6-27B · fp8")
    assert "gb10 · 273 GB/s nominal · 128 GB · for agents" in text
    assert "Launch vLLM 0.33.0, flags checked on 0.33.0" in text

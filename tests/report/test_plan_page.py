"""The plan's page as text: what to do first, everything escaped, nothing loaded, every unknown with its reason."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.report import plan_samples as samples
from widelane.figures import Figure, Origin
from widelane.plan.report import Argument, Recommendation
from widelane.report.plan_page import plan_page
from widelane.report.plan_table import plan_table

EVIL = "</script><b>5 > 4 & 3</b>"


@pytest.mark.parametrize("name", samples.ALL)
def test_nothing_is_loaded_from_anywhere(name: str) -> None:
    text = plan_page(samples.ALL[name]())
    links = re.findall(r"""(?:src|href|action)\s*=\s*["']?([^"'\s>]+)""", text) + re.findall(r"url\(([^)]*)\)", text)
    assert [link for link in links if not link.startswith(("data:", "#"))] == []
    assert "@import" not in text and "fetch(" not in text and "XMLHttpRequest" not in text


@pytest.mark.parametrize("name", samples.ALL)
def test_the_policy_allows_exactly_the_inlined_style_and_script(name: str) -> None:
    text = plan_page(samples.ALL[name]())
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    allowed = dict(rule.strip().split(" ", 1) for rule in policy[1].replace("&#39;", "'").split(";"))
    for rule, tag in (("style-src", "style"), ("script-src", "script")):
        inlined = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(inlined) == 1
        assert allowed[rule] == f"'sha256-{base64.b64encode(hashlib.sha256(inlined[0].encode()).digest()).decode()}'"
    assert not re.search(r"<[^>]+\s(style|on\w+)=", text), "inline styles and handlers would be refused"


@pytest.mark.parametrize("name", samples.ALL)
def test_the_drawings_hold_numbers_only(name: str) -> None:
    text = plan_page(samples.ALL[name]())
    assert not re.search(r'="[^"]*\b(nan|inf|None)\b', text)


ODD = [None, 0.0, -1.0, 1e-12, 1e15, math.inf, -math.inf, math.nan, 7.5]


def odd_figure(values: tuple[float | None, float | None, float | None]) -> Figure:
    value, low, high = values
    return Figure(value, "tok/s", Origin.PREDICTED, low, high, "?" if value is None else None)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(*[st.sampled_from(ODD)] * 3).map(odd_figure), min_size=6, max_size=6),
    st.integers(0, 5),
    st.sampled_from([1, 3, 10**9]),
)
def test_no_figure_breaks_a_drawing(figures: list[Figure], count: int, widest: int) -> None:
    """Endless, negative, tiny, unknown: it is left out, and nothing in a drawing stands at what is no number."""
    steps = [replace(one, step_s=figures[0], output_tok_s=figures[1]) for one in samples.dense_steps()[:count]]
    steps.append(replace(samples.dense_steps()[0], batch=widest))
    report = samples.dense(
        steps=steps, prefill=[replace(one, tok_s=figures[2], seconds=figures[3]) for one in samples.dense().prefill],
        memory=[replace(one, bytes=figures[4]) for one in samples.dense().memory],
        sequences_that_fit=samples.sequences(typical=figures[5], lanes=figures[0]), expected_tok_s=figures[3],
        width=replace(samples.dense().width, doubling_batch=figures[4], gain=figures[2]),
        levers=[replace(one, gain=figures[1], now=figures[2], then=figures[3]) for one in samples.DENSE_LEVERS],
    )  # fmt: skip
    assert not re.search(r'\b(?:x|y|d|width|height|x1|x2|y1|y2|cx|cy)="[^"]*(nan|inf|None)', plan_page(report))
    out = io.StringIO()
    Console(file=out, width=80).print(plan_table(report))
    assert "Verdict" in out.getvalue()


def test_what_to_do_comes_first_then_the_evidence_then_the_command() -> None:
    text = plan_page(samples.dense())
    sections = ("width", "memory", "levers", "prefill", "launch", "notes", "made")
    places = [text.index("<h1>"), *(text.index(f'id="{name}"') for name in sections)]
    assert places == sorted(places)
    assert "<h1>Run 24 lanes on vLLM" in text


def test_the_levers_say_gain_price_and_which_are_in_the_command() -> None:
    text = plan_page(samples.dense())
    levers = text[text.index('id="levers"') : text.index('id="prefill"')]
    titles = [lever.title.replace("'", "&#39;") for lever in samples.DENSE_LEVERS]
    order = sorted((title for title in titles if title in levers), key=levers.index)
    assert len(order) == 6
    assert order[-2:] == ["Let 128 sequences decode together", "Reuse common prompt beginnings"]
    assert levers.count("✓ in the command") == 3 and levers.count("loses") == 1
    assert "×1.71" in levers and "51 → 87 sequences" in levers
    assert "would change only the convolution part" in levers
    assert "not known: depends on how much your prompts share" in levers


def test_the_command_stands_there_whole_and_flag_by_flag_with_reasons() -> None:
    text = plan_page(samples.dense())
    launch = text[text.index('id="launch"') : text.index('id="notes"')]
    shown = [re.sub(r"<[^>]+>", "", code) for code in re.findall(r"<code>(.*?)</code>", launch)]
    assert shown[0] == samples.launch().command.replace('"', "&#34;").replace("'", "&#39;")
    assert shown[1:4] == ["vllm serve", "Qwen/Qwen3.6-27B-FP8", "--max-num-seqs 24"]
    assert "--enable-auto-tool-choice" in shown and "--enforce-eager" in shown
    assert "the engine" in launch and "gives up CUDA graphs" in launch and "Deliberately left out" in launch


def test_an_engine_that_its_environment_configures_shows_the_variables_and_what_comes_after() -> None:
    text = plan_page(samples.moe())
    assert re.search(r"OLLAMA_NUM_PARALLEL=24</span></code></th><td class=\"text\">lanes that the pool holds", text)
    assert "Once it answers:" in text and "gpt-oss:120b" in text
    assert "of the server, not of the client" in text
    assert "Deliberately left out" not in text


def test_what_is_not_known_is_a_dash_with_its_reason_and_no_chart() -> None:
    text = plan_page(samples.not_known())
    assert f"recommended rate: {samples.NO_BANDWIDTH}" in text
    assert '<svg class="chart"' not in text
    assert "Nothing is predicted about prefill here." in text
    assert "None" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


def test_a_model_that_does_not_fit_says_how_much_is_missing() -> None:
    text = plan_page(samples.too_large())
    assert "The parts need 205 GB; the device has 128 GB." in text
    assert 'class="end"' in text


def test_a_batch_that_the_pool_does_not_hold_says_so_in_words() -> None:
    text = plan_page(samples.dense())
    rows = re.findall(r'<tr( class="beyond")?><th scope="row">(\d+)</th>', text)
    assert [batch for beyond, batch in rows if beyond] == ["64", "128", "256"]
    assert text.count("too small") == 3 and text.count("holds it") == 6


def test_text_is_escaped() -> None:
    evil = Recommendation(
        sentence=EVIL, lanes=samples.predicted(1, EVIL), expected_tok_s=samples.predicted(1, "tok/s"), why=(EVIL,)
    )
    lever = replace(samples.DENSE_LEVERS[0], title=EVIL, flag=EVIL, price=EVIL)
    launch = samples.launch(
        argv=(Argument(flag=EVIL, value=EVIL, reason=EVIL),), command=EVIL, afterwards=(EVIL,), notes=(EVIL,)
    )
    text = plan_page(
        samples.dense(
            model=samples.model(name=EVIL, quant=EVIL, layers={EVIL: 1}, assumed=(EVIL,)),
            device=samples.device(name=EVIL, note=EVIL), engine_version=EVIL, recommendation=evil, levers=(lever,),
            launch=launch, notes=(EVIL,),
        )
    )  # fmt: skip
    assert "<b>5 > 4" not in text and text.count("</script>") == 1
    assert "&lt;b&gt;5 &gt; 4 &amp; 3&lt;/b&gt;" in text


def test_figures_say_where_they_come_from() -> None:
    text = plan_page(samples.dense())
    for figure in ("28.5 GB (read)", "26.0 GB (inferred)", "4.10 GB (assumed)", "832 tokens (predicted)"):
        assert figure in text
    assert str(Origin.MEASURED) in text


def test_the_same_plan_gives_the_same_page() -> None:
    assert plan_page(samples.dense()) == plan_page(samples.dense())

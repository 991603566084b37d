"""The HTML page in a real browser: it is quiet, it draws every call, and it can be read and moved in."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report import samples
from tests.report.devtools import OVERFLOWING, Page, Show
from widelane.figures import Figure, Finding, Origin, Severity, unknown
from widelane.measure.profile import Limit, Server, SweepReport
from widelane.records import Span
from widelane.report.html import page
from widelane.report.payload import STRIP_PX, row_px

pytestmark = pytest.mark.browser

GUTTER, RIGHT = 44, 6
"""The drawing's margins from 520 pixels up, as in timeline.js."""


def with_calls(spans: list[Span], label: str = "32", slots: int | None = 32) -> SweepReport:
    known = Figure(slots, "slots", Origin.READ) if slots else unknown("slots", "not told")
    server = Server(url="http://127.0.0.1:8080", facts=samples.facts(slots=known))
    return replace(samples.np4(), timeline={label: spans}, server=server)


def canvas(one: Page) -> dict[str, str]:
    data: dict[str, str] = one.evaluate("({...document.getElementById('lanes-canvas').dataset})")
    return data


def visible(one: Page) -> tuple[float, float]:
    data = canvas(one)
    return float(data["from"]), float(data["to"])


def box(one: Page) -> dict[str, float]:
    """The canvas in the window, scrolled into it."""
    one.evaluate("document.getElementById('lanes-canvas').scrollIntoView({block: 'center', behavior: 'instant'})")
    one.frame()
    found: dict[str, float] = one.evaluate("document.getElementById('lanes-canvas').getBoundingClientRect().toJSON()")
    return found


def place(one: Page, t_s: float, row: int, rows: int) -> tuple[float, float]:
    """Where in the window the time `t_s` on a row is, from what is visible now."""
    frame, (start, end) = box(one), visible(one)
    x = frame["x"] + GUTTER + (t_s - start) / (end - start) * (frame["width"] - GUTTER - RIGHT)
    return x, frame["y"] + STRIP_PX + (row + 0.4) * row_px(rows)


def text(one: Page, element: str) -> str:
    found: str = one.evaluate(f"document.getElementById('{element}').innerText")
    return found


def test_every_kind_of_page_is_quiet_and_alone(show: Show) -> None:
    """Checked by the fixture for every page; here for those without a timeline and with everything at once."""
    show(page(None, samples.doctor()))
    show(page(with_calls(samples.job_spans(), "job"), samples.doctor(), samples.np4()))


def test_every_call_of_every_recorded_level_is_drawn(show: Show, data_dir: Path) -> None:
    paths = sorted((data_dir / "fixtures" / "sweeps").glob("*.json"))
    if not paths:
        pytest.skip("no recorded sweeps")
    for path in paths:
        sweep = samples.recorded_sweep(path, slots=4, knee_at=4, limit=Limit.SLOTS)
        one = show(page(sweep, None), width=900, height=700)
        for level, spans in sweep.timeline.items():
            one.evaluate(
                f"[...document.querySelectorAll('.levels button')].find(b => b.textContent === '{level}').click()"
            )
            one.frame()
            assert canvas(one)["drawn"] == canvas(one)["calls"] == str(len(spans)), (path.name, level)


def test_zoom_and_pan_change_the_visible_stretch(show: Show) -> None:
    one = show(page(with_calls(samples.job_spans(), "job", None), None))
    assert visible(one) == (0, 21.8)
    one.evaluate("document.getElementById('lanes-canvas').focus()")
    one.key("+")
    start, end = visible(one)
    assert end - start == pytest.approx(21.8 * 0.6)
    one.key("ArrowRight", shift=True)
    assert visible(one)[0] == pytest.approx(start + 0.2 * (end - start))
    assert int(canvas(one)["drawn"]) <= int(canvas(one)["calls"])
    one.key("0")
    assert visible(one) == (0, 21.8)
    one.evaluate("document.getElementById('zoom-in').click()")
    one.frame()
    assert visible(one)[1] - visible(one)[0] == pytest.approx(21.8 * 0.6)
    one.evaluate("document.getElementById('zoom-all').click()")
    one.frame()
    assert visible(one) == (0, 21.8)


def test_the_wheel_zooms_only_when_it_is_meant_to(show: Show) -> None:
    """Without ctrl and without focus the page scrolls on; with ctrl the time under the pointer stays where it is."""
    one = show(page(with_calls(samples.job_spans(), "job", None), None), height=600)
    x, y = place(one, 10.9, 2, 6)
    one.wheel(x, y, -40, ctrl=False)
    assert visible(one) == (0, 21.8)
    x, y = place(one, 10.9, 2, 6)
    one.wheel(x, y, -60, ctrl=True)
    start, end = visible(one)
    assert end - start < 21.8 * 0.8
    assert (start + end) / 2 == pytest.approx(10.9, abs=0.1)


def test_a_drag_on_the_strip_chooses_a_stretch_and_on_the_lanes_moves_it(show: Show) -> None:
    one = show(page(with_calls(samples.job_spans(), "job", None), None))
    left, _ = place(one, 5, 0, 6)
    right, row_y = place(one, 10, 0, 6)
    one.drag(left, right, box(one)["y"] + 20)
    assert visible(one) == pytest.approx((5, 10), abs=0.1)
    one.drag(right - 100, right - 300, row_y)
    assert visible(one)[0] > 5.2
    assert visible(one)[1] - visible(one)[0] == pytest.approx(5, abs=0.1)


def test_hovering_names_the_call(show: Show) -> None:
    one = show(page(with_calls(samples.job_spans(), "job", None), None))
    one.move(*place(one, 6, 3, 6))
    tip = text(one, "tip")
    assert "work-3 · work, failed" in tip
    assert "connection_lost" in tip
    assert "the server closed the connection" in tip
    one.move(*place(one, 7, 2, 6))
    assert re.search(r"attempts\s+2", text(one, "tip"))
    assert re.search(r"caused by\s+plan", text(one, "tip"))
    one.move(5, 5)
    assert one.evaluate("document.getElementById('tip').hidden") is True


def test_the_wait_for_a_slot_is_told_apart_and_said_to_be_inferred(show: Show) -> None:
    """Two callers, one slot: the second is served when the first has left, after 1 s."""
    spans = [
        Span(key="a", lane=0, queued_ns=0, started_ns=0, first_token_ns=200 * samples.MS, ended_ns=samples.S,
             output_tokens=9),
        Span(key="b", lane=1, queued_ns=0, started_ns=0, first_token_ns=1200 * samples.MS, ended_ns=2 * samples.S,
             output_tokens=9),
    ]  # fmt: skip
    one = show(page(with_calls(spans, "2", slots=1), None))
    one.move(*place(one, 0.5, 1, 2))
    assert re.search(r"waited for a slot \(inferred\)\s+1\.00 s", text(one, "tip"))
    assert re.search(r"prefill\s+200 ms", text(one, "tip"))


def test_the_keyboard_reaches_every_call_and_says_it(show: Show) -> None:
    one = show(page(with_calls(samples.job_spans(), "job", None), None))
    one.evaluate("document.getElementById('lanes-canvas').focus()")
    one.key("ArrowRight")
    assert text(one, "said").startswith("plan plan, ok; lane 1")
    one.key("ArrowRight")
    assert text(one, "said").startswith("work-0 work, ok")
    one.key("ArrowDown")
    assert "lane 2" in text(one, "said")
    one.key("Escape")
    assert one.evaluate("document.getElementById('tip').hidden") is True


PIXEL = """(() => { const c = document.getElementById('lanes-canvas'), copy = document.createElement('canvas');
  const p = copy.getContext('2d', { willReadFrequently: true });
  p.drawImage(c, 2, c.height - 2, 1, 1, 0, 0, 1, 1);
  return [...p.getImageData(0, 0, 1, 1).data].slice(0, 3); })()"""


def test_dark_and_light_follow_the_system_and_the_button(show: Show) -> None:
    one = show(page(with_calls(samples.job_spans(), "job", None), None), dark=True)
    ground = "getComputedStyle(document.body).backgroundColor"
    dark, dark_pixel = one.evaluate(ground), one.evaluate(PIXEL)
    assert max(dark_pixel) < 60
    one.evaluate("document.getElementById('theme').click()")
    one.frame()
    assert one.evaluate(ground) != dark
    assert min(one.evaluate(PIXEL)) > 240


def test_paper_is_light_even_when_the_screen_is_dark(show: Show) -> None:
    one = show(page(with_calls(samples.job_spans(), "job", None), None), dark=True)
    one.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert one.evaluate(PIXEL) == [255, 255, 255]
    one.evaluate("dispatchEvent(new Event('afterprint'))")
    assert max(one.evaluate(PIXEL)) < 60


def test_128_lanes_are_drawn_at_most_once_a_frame(show: Show) -> None:
    """A burst of 100 zoom steps costs one drawing, and that drawing holds every call in sight."""
    spans = samples.closed_loop(128, 20, slots=32)
    one = show(page(with_calls(spans, "128"), None))
    assert canvas(one)["drawn"] == str(128 * 20)
    before = int(canvas(one)["frames"])
    one.evaluate("for (let k = 0; k < 100; k++) document.getElementById(k % 2 ? 'zoom-in' : 'zoom-out').click()")
    one.frame()
    assert 1 <= int(canvas(one)["frames"]) - before <= 2
    height = one.evaluate("document.getElementById('lanes-canvas').height")
    assert height < 900, "128 lanes fit on a screen"


def test_a_phone_shows_everything_without_scrolling_sideways(show: Show) -> None:
    long_word = "/models/" + "x" * 240
    findings = (*samples.FINDINGS, Finding("small-context", Severity.WARNING, "Small", long_word))
    sweep = with_calls(samples.closed_loop(16, 4, slots=4), "16", 4)
    one = show(page(sweep, samples.doctor(findings=findings), samples.np4()), width=390, height=844)
    assert one.evaluate("document.scrollingElement.scrollWidth") <= 390
    assert one.evaluate(OVERFLOWING) == []
    frame = box(one)
    for x in (frame["x"] + 40, frame["x"] + frame["width"] - 10):  # the words of a call stay inside, too
        one.move(x, frame["y"] + STRIP_PX + 8)
        assert one.evaluate(OVERFLOWING) == []


def test_nothing_moves_while_the_page_is_built(show: Show) -> None:
    one = show(page(with_calls(samples.closed_loop(16, 4, slots=4), "16", 4), samples.doctor()))
    shift = one.evaluate(
        "new Promise(done => { let sum = 0; const o = new PerformanceObserver(l => l.getEntries().forEach(e => "
        "sum += e.value)); o.observe({type: 'layout-shift', buffered: true}); requestAnimationFrame(() => "
        "requestAnimationFrame(() => done(sum))); })"
    )
    assert shift < 0.02, "a busy machine may lay out once more when its fonts are there; 0.1 is what people notice"


def test_what_a_server_or_a_call_says_is_shown_and_never_run(show: Show) -> None:
    evil = "</script><script>window.owned=1</script><img src=x onerror='window.owned=1'><!--"
    spans = [replace(samples.job_spans()[0], key=evil, role=evil, detail=evil)]
    sweep = replace(with_calls(spans, evil, None), limit_evidence=evil, made={evil: evil})
    finding = Finding(evil, Severity.ERROR, evil, evil)
    one = show(page(sweep, samples.doctor(verdict=evil, findings=(finding,))))
    assert one.evaluate("window.owned") is None
    assert one.evaluate("document.querySelector('h1').textContent") == evil
    one.evaluate("document.getElementById('lanes-canvas').focus()")
    one.key("ArrowRight")
    assert evil in one.evaluate("document.getElementById('tip').textContent")
    assert one.evaluate("document.images.length") == 0


def test_a_fix_can_be_copied(show: Show) -> None:
    """To the clipboard where there is one, else the command is selected."""
    one = show(page(None, samples.doctor()))
    one.evaluate("document.querySelector('.copy').click()")
    one.frame()
    assert one.evaluate(
        "document.querySelector('.copy').textContent === 'Copied' || getSelection().toString().includes('-np 32')"
    )


def test_the_calls_can_be_read_as_a_table(show: Show) -> None:
    one = show(page(with_calls(samples.closed_loop(32, 10, slots=4), "32", 4), None))
    one.evaluate("document.getElementById('calls').open = true")
    one.frame()
    rows = "document.getElementById('calls-table').tBodies[0].rows.length"
    assert one.evaluate(rows) == 200
    one.evaluate("document.getElementById('more-calls').click()")
    assert one.evaluate(rows) == 320
    assert one.evaluate("document.getElementById('more-calls').hidden") is True

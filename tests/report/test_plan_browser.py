"""The plan's page in a real browser: quiet, alone, readable on a phone, its command copied without any network."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report import plan_samples as samples
from tests.report.devtools import OVERFLOWING, Show
from widelane.report.plan_page import plan_page

pytestmark = pytest.mark.browser

OVERLAPPING = """(() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg.chart, svg.memory')) {
    const shown = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim() && t.getClientRects().length);
    const boxes = shown.map(t => t.getBoundingClientRect());
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b, k) => {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > 4) found.push(`${shown[i].textContent} / ${shown[i + 1 + k].textContent}`);
    }));
  }
  return found; })()"""

OUTSIDE_THEIR_PART = """[...document.querySelectorAll('svg.memory .part')].filter(part => {
  const room = part.querySelector('rect').getBoundingClientRect();
  return [...part.querySelectorAll('text')].some(t => {
    const r = t.getBoundingClientRect();
    return t.getClientRects().length && (r.right > room.right + 1 || r.left < room.left - 1); });
}).map(part => part.textContent)"""


@pytest.mark.parametrize("name", samples.ALL)
@pytest.mark.parametrize("width", [360, 390, 640, 830, 1000, 1400])
def test_every_plan_fits_every_screen_and_no_words_lie_on_others(show: Show, name: str, width: int) -> None:
    one = show(plan_page(samples.ALL[name]()), width=width)
    assert one.evaluate("document.scrollingElement.scrollWidth") <= width
    assert one.evaluate(OVERFLOWING) == []
    assert one.evaluate(OVERLAPPING) == []
    assert one.evaluate(OUTSIDE_THEIR_PART) == []


def test_long_words_do_not_widen_the_page(show: Show) -> None:
    long = "/models/" + "x" * 240
    launch = samples.launch(command=f"vllm serve {long}", notes=(long,), afterwards=(long,))
    levers = (replace(samples.DENSE_LEVERS[0], title=long, flag=long, price=long),)
    model = samples.model(name=long, assumed=(long,))
    one = show(plan_page(samples.dense(launch=launch, levers=levers, model=model)), width=390)
    assert one.evaluate("document.scrollingElement.scrollWidth") <= 390
    assert one.evaluate(OVERFLOWING) == []


def test_the_command_is_copied_whole(show: Show) -> None:
    one = show(plan_page(samples.dense()))
    one.evaluate("navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }")
    one.evaluate("document.querySelector('#launch .copy').click()")
    one.frame()
    assert one.evaluate("window.copied") == samples.launch().command
    assert one.evaluate("document.querySelector('#launch .copy').textContent") == "Copied"


def test_the_command_is_copied_where_there_is_no_clipboard_to_write_to(show: Show) -> None:
    """As on a page that came over plain HTTP: the selection is copied, and stays selected."""
    one = show(plan_page(samples.dense()))
    one.evaluate("navigator.clipboard.writeText = () => Promise.reject(new Error('refused'))")
    one.evaluate("document.addEventListener('copy', () => { window.copied = getSelection().toString(); })")
    one.evaluate("document.querySelector('#launch .copy').click()")
    one.frame()
    selected = one.evaluate("window.copied || getSelection().toString()")
    assert " ".join(selected.split()) == samples.launch().command


def test_dark_and_light_follow_the_system_and_the_button(show: Show) -> None:
    one = show(plan_page(samples.dense()), dark=True)
    ground = "getComputedStyle(document.body).backgroundColor"
    fill = "getComputedStyle(document.querySelector('.memory .green rect')).fill"
    dark = one.evaluate(ground), one.evaluate(fill)
    one.evaluate("document.getElementById('theme').click()")
    one.frame()
    assert one.evaluate(ground) != dark[0] and one.evaluate(fill) != dark[1]


@pytest.mark.parametrize("dark", [False, True])
def test_words_on_the_memory_bar_can_be_read(show: Show, dark: bool) -> None:
    """Contrast of at least 4.5 between a label and the part it stands on (WCAG 2.2, 1.4.3)."""
    one = show(plan_page(samples.dense()), dark=dark)
    contrasts = one.evaluate("""[...document.querySelectorAll('.memory .part')].filter(p => p.querySelector('text'))
      .map(p => { const of = e => { const c = getComputedStyle(e).fill.match(/[\\d.]+/g).map(v => v / 255)
          .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
          return .2126 * c[0] + .7152 * c[1] + .0722 * c[2]; };
        const [a, b] = [of(p.querySelector('text')), of(p.querySelector('rect'))].sort((x, y) => y - x);
        return (a + .05) / (b + .05); })""")
    assert len(contrasts) >= 2 and min(contrasts) >= 4.5


def test_on_paper_the_folds_are_open_and_the_buttons_gone(show: Show) -> None:
    one = show(plan_page(samples.dense()))
    one.send("Emulation.setEmulatedMedia", media="print")
    one.evaluate("dispatchEvent(new Event('beforeprint'))")
    one.frame()
    assert one.evaluate("[...document.querySelectorAll('#made details')].every(d => d.open)")
    assert one.evaluate("[...document.querySelectorAll('button')].every(b => !b.getClientRects().length)")
    one.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not one.evaluate("[...document.querySelectorAll('#made details')].some(d => d.open)")


def test_what_a_name_says_is_shown_and_never_run(show: Show) -> None:
    evil = "</script><script>window.owned=1</script><img src=x onerror='window.owned=1'><!--"
    model = samples.model(name=evil, assumed=(evil,))
    one = show(plan_page(samples.dense(model=model, launch=samples.launch(command=evil), notes=(evil,))))
    assert one.evaluate("window.owned") is None
    assert one.evaluate("document.images.length") == 0
    assert one.evaluate("document.querySelector('#launch .command code').textContent") == evil

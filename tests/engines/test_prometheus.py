"""Prometheus text, as exporters really write it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from widelane.engines.prometheus import parse_metrics


def test_colon_and_underscore_are_the_same_and_total_is_optional() -> None:
    samples = parse_metrics("vllm:num_preemptions_total 6\nvllm_num_requests_running 2\n")
    assert samples.total("vllm:num_preemptions") == 6
    assert samples.total("vllm:num_requests_running") == 2
    assert samples.has_prefix("vllm:")


def test_the_first_name_that_exists_counts() -> None:
    assert (
        parse_metrics("vllm:gpu_cache_usage_perc 0.4").highest("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
        == 0.4
    )


def test_several_engines_behind_one_server_are_added_and_shares_are_not() -> None:
    text = 'n{engine="0"} 2\nn{engine="1"} 3\nshare{engine="0"} 0.2\nshare{engine="1"} 0.9\n'
    samples = parse_metrics(text)
    assert samples.total("n") == 5
    assert samples.total("n", engine="1") == 3
    assert samples.highest("share") == 0.9


def test_labels_with_commas_braces_quotes_and_line_ends() -> None:
    samples = parse_metrics(r'info{a="x,y={1}",b="say \"hi\"",c="back\\slash",d="two\nlines",} 1.0 1700000000')
    assert samples.labels("info") == {"a": "x,y={1}", "b": 'say "hi"', "c": "back\\slash", "d": "two\nlines"}


def test_timestamps_and_exemplars_are_left_out_and_what_is_no_number_is_not_told() -> None:
    samples = parse_metrics('a 1 1700000000\nb{le="+Inf"} +Inf # {trace="1"} 0.5\nc NaN\n')
    assert samples.total("a") == 1
    assert samples.total("b") is None
    assert samples.total("c") is None


def test_what_cannot_be_read_hides_nothing_else() -> None:
    samples = parse_metrics('{"json": 1}\n<html>\nbroken{a="1 2\nok 3\nno_value\n')
    assert samples.total("ok") == 3
    assert len(samples) == 1


def test_unmeasured_is_none_not_zero() -> None:
    samples = parse_metrics("")
    assert samples.total("x") is None and samples.highest("x") is None and samples.labels("x") == {}


def test_positions_come_in_their_order() -> None:
    text = 'p_total{position="10"} 1\np_total{position="2"} 5\np_total{position="0"} 9\n'
    assert parse_metrics(text).by_label("position", "p") == (9, 5, 1)


@given(st.text())
def test_any_text_is_read_without_an_exception(text: str) -> None:
    parse_metrics(text)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")))
def test_every_label_value_survives(value: str) -> None:
    written = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    assert parse_metrics(f'm{{a="{written}"}} 1').labels("m") == {"a": value}

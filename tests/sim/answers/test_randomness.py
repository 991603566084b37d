"""Every request has a generator of its own: nothing depends on order, process or transport."""

import itertools

import pytest

from tests.sim.answers.asking import ask
from widelane.records import ChatRequest
from widelane.sim.answers.randomness import AnswerRandomness, request_digest


def _drawn(seed: int, requests: list[ChatRequest]) -> list[float]:
    randomness = AnswerRandomness(seed)
    return [randomness.of(request).random() for request in requests]


def test_the_order_of_arrival_changes_nothing() -> None:
    requests = [ask("a"), ask("b"), ask("c", seed=1), ask("d", temperature=0)]
    expected = dict(zip("abcd", _drawn(7, requests), strict=True))

    for order in itertools.permutations(range(4)):
        drawn = _drawn(7, [requests[i] for i in order])
        assert dict(zip(("abcd"[i] for i in order), drawn, strict=True)) == expected


def test_another_server_seed_gives_other_draws() -> None:
    assert _drawn(1, [ask("a")]) != _drawn(2, [ask("a")])


def test_identical_unseeded_requests_are_different_samples() -> None:
    assert len(set(_drawn(7, [ask("a")] * 6))) == 6


@pytest.mark.parametrize("fields", [{"seed": 3}, {"temperature": 0}, {"temperature": 0.0}])
def test_a_seed_or_temperature_zero_repeats_the_answer(fields: dict[str, float]) -> None:
    assert len(set(_drawn(7, [ask("a", **fields)] * 6))) == 1


def test_what_was_not_asked_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("widelane.sim.answers.randomness._REMEMBERED", 2)
    first, *_, again = _drawn(7, [ask("a"), ask("b"), ask("c"), ask("a")])

    assert again == first


def test_choices_of_one_request_differ() -> None:
    randomness = AnswerRandomness(7)
    request = ask("a", seed=1, n=3)

    assert len({randomness.of(request, choice).random() for choice in range(3)}) == 3


@pytest.mark.parametrize(
    "other",
    [
        ask("a", max_tokens=5),
        ask("a", stream=False),
        ask("a", stop=["x"]),
        ask("a", model="named"),
        ask("a", raw=True, prompt_tokens_estimate=9),
        ask("a", extra={"cache_prompt": False, "ignore_eos": True, "min_tokens": 4}),
    ],
)
def test_what_only_cuts_or_sends_an_answer_does_not_change_it(other: ChatRequest) -> None:
    assert request_digest(other) == request_digest(ask("a"))


@pytest.mark.parametrize(
    "other",
    [
        ask("b"),
        ask("a", seed=1),
        ask("a", temperature=0.5),
        ask("a", top_p=0.5),
        ask("a", tools=[{"type": "function"}]),
        ask("a", response_format={"type": "json_object"}),
        ask("a", extra={"chat_template_kwargs": {"enable_thinking": False}}),
        ChatRequest(prompt="a"),
    ],
)
def test_what_is_asked_changes_it(other: ChatRequest) -> None:
    assert request_digest(other) != request_digest(ask("a"))


def test_a_history_in_memory_is_that_over_http() -> None:
    def request(arguments: object) -> ChatRequest:
        call = {"id": "1", "function": {"name": "read", "arguments": arguments}}
        return ChatRequest(messages=({"role": "assistant", "tool_calls": [call]},), temperature=0)

    assert request_digest(request({"b": 1, "a": 2})) == request_digest(request('{"a": 2,"b":1}'))


def test_numbers_are_what_they_mean() -> None:
    assert request_digest(ask("a", temperature=1)) == request_digest(ask("a", temperature=1.0))

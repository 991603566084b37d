"""Prompts that no cache has seen."""

from widelane.measure.workload import CallMaker

MAKER = CallMaker(seed=7, endpoint="completions", prompt_tokens=16, forced=True, extra={"cache_prompt": False})


def test_the_same_seed_gives_the_same_prompt_in_any_order() -> None:
    again = CallMaker(seed=7, endpoint="chat", prompt_tokens=16, forced=True)
    assert [MAKER.prompt("8/0", n) for n in (0, 1, 2)] == [again.prompt("8/0", n) for n in (2, 1, 0)][::-1]


def test_no_two_prompts_of_a_run_begin_alike() -> None:
    heads = {" ".join(MAKER.prompt(group, n).split()[:4]) for group in ("1/0", "64/0") for n in range(500)}
    assert len(heads) == 1000


def test_a_prompt_has_the_words_it_was_asked_for() -> None:
    assert len(MAKER.prompt("1/0", 0).split()) == 16


def test_without_a_forced_length_the_prompt_asks_for_a_long_answer() -> None:
    free = CallMaker(seed=7, endpoint="completions", prompt_tokens=16, forced=False)
    assert free.prompt("1/0", 0).endswith("1, 2, 3, 4,")


def test_a_request_carries_the_length_and_the_engines_fields() -> None:
    request = MAKER.request("1/0", 0, 24, {"ignore_eos": True})
    assert request.prompt is not None
    assert (request.max_tokens, request.raw, request.messages) == (24, True, ())
    assert request.extra == {"cache_prompt": False, "ignore_eos": True}


def test_on_chat_the_prompt_is_a_user_message() -> None:
    chat = CallMaker(seed=7, endpoint="chat", prompt_tokens=16, forced=True).request("1/0", 0, 24, {})
    assert chat.prompt is None
    assert [message["role"] for message in chat.messages] == ["user"]

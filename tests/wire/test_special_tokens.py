"""Control tokens are cut where they leaked, and stay where a person asked for them."""

from __future__ import annotations

import pytest

from widelane.wire.special_tokens import cut_special_tokens


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Hello world<|im_end|>", "Hello world"),
        ("Hello world<|im_end|>\n", "Hello world"),
        ("Hello\n<|eot_id|><|end_of_text|>", "Hello"),
        ("Hello</s>", "Hello"),
        ("Hello<end_of_turn>", "Hello"),
        ("Hello<｜end▁of▁sentence｜>", "Hello"),
        ("<|im_start|>assistant\nHello", "Hello"),
        ("<|start_header_id|>assistant<|end_header_id|>\n\nHello", "Hello"),
        ("<s> Hello", "Hello"),
        ("Hello<|im_end|>\n<|im_start|>user\nAnd now?", "Hello"),
        ("Use `<|im_end|>`, then stop.<|im_end|>", "Use `<|im_end|>`, then stop."),
        ("<|im_end|>", ""),
    ],
)
def test_leaked_tokens_are_cut(text: str, kept: str) -> None:
    assert cut_special_tokens(text) == (kept, True)


@pytest.mark.parametrize(
    "text",
    [
        "Hello",
        "```\nprompt = '<|im_end|>'\n```",
        "```\n<|im_start|>user\nHi<|im_end|>\n",
        "End a turn with `<|im_end|>`",
        "a <b> and [INST] in the middle of a sentence",
        "x <|im_end|> y",
        "if a <| b: return </section>",
    ],
)
def test_tokens_in_code_and_in_the_middle_stay(text: str) -> None:
    assert cut_special_tokens(text) == (text, False)

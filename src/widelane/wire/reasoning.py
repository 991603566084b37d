"""Reasoning that leaked into the answer, taken apart from it.

A server without the right reasoning parser leaves the model's thought in `content`. It is split off at the head of the
text only; a tag later in the text, in code or in quotes is part of the answer.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from widelane.wire.special_tokens import inside_code

_PAIRS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought\n", "<channel|>"),
)
"""Opening and closing marks of the model families that have them."""
_CLOSE_ONLY = {
    closing: opening for opening, closing in _PAIRS if opening in ("<think>", "[THINK]", "◁think▷", "<seed:think>")
}
"""Closing marks whose opening one a chat template may have put into the prompt."""
_HARMONY = re.compile(r"\A\s*(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary|final)")
_HARMONY_MESSAGE = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>(?P<channel>\w+)(?P<to>[^<]*)(?:<\|constrain\|>\w+)?<\|message\|>"
    r"(?P<text>[\s\S]*?)(?:<\|end\|>|<\|return\|>|(?=<\|start\|>)|(?P<call><\|call\|>)|\Z)"
)


class Split(NamedTuple):
    """Answer and thought.

    Attributes:
        leaked: the server left the thought in the answer.
        unfinished: the thought never ended, so there is no answer.
    """

    text: str
    reasoning: str
    leaked: bool = False
    unfinished: bool = False


def split_reasoning(text: str, *, parsed: bool = False) -> Split:
    """The answer and the thought at its head.

    Args:
        parsed: the server already gave reasoning in its own field; then only a stray closing mark at the head is cut.
    """
    head = text.lstrip()
    if parsed:
        for close in _CLOSE_ONLY:
            if head.startswith(close):
                return Split(head[len(close) :].lstrip("\n"), "", leaked=True)
        return Split(text, "")
    if _HARMONY.match(text):
        return _split_harmony(text)
    for opening, closing in _PAIRS:
        if head.startswith(opening):
            rest = head[len(opening) :]
            while rest.lstrip().startswith(opening):  # the template opened it, and the model once more
                rest = rest.lstrip()[len(opening) :]
            return _split_at(rest, closing)
    return _split_close_only(text)


def _split_at(rest: str, closing: str) -> Split:
    thought, mark, answer = rest.partition(closing)
    if not mark:
        return Split("", thought.strip(), leaked=True, unfinished=True)
    return Split(answer.lstrip(), thought.strip(), leaked=True)


def _split_close_only(text: str) -> Split:
    for closing, opening in _CLOSE_ONLY.items():
        at = text.find(closing)
        quoted = text[max(at - 1, 0) : at] in ("`", '"', "'")
        if at < 0 or quoted or opening in text[:at] or inside_code(text, at):
            continue
        return Split(text[at + len(closing) :].lstrip(), text[:at].strip(), leaked=True)
    return Split(text, "")


def _split_harmony(text: str) -> Split:
    """gpt-oss's channels: `analysis` is thought, `final` the answer; a call to a tool is left for its reader."""
    thoughts: list[str] = []
    answers: list[str] = []
    for message in _HARMONY_MESSAGE.finditer(text):
        if message["channel"] == "final":
            answers.append(message["text"])
        elif "to=" in message["to"]:
            answers.append(message[0])
        else:
            thoughts.append(message["text"])
    answer = "".join(answers)
    return Split(answer, "\n".join(thoughts).strip(), leaked=True, unfinished=not answer)

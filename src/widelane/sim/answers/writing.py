"""How far an answer has been written after so many tokens, and how it is cut or drawn out.

Characters are spread evenly over an answer's tokens: reasoning over its own, then text, then tool calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from widelane.sim.answers.answer import Answer

_FILLER = (
    "The request was read from the queue and the batch kept its place while other work went on beside it. Each step "
    "reads every weight once, and what it reads is shared by all who wait for it. "
)
"""What stands where nobody said what to write."""


@dataclass(frozen=True, slots=True)
class Written:
    """What stands after a number of tokens.

    Attributes:
        tool_chars: characters of the tool calls' serialised arguments, all calls one after the other.
    """

    reasoning: str
    text: str
    tool_chars: int


class Writing:
    """An answer as it is being written.

    Args:
        argument_chars: characters of each tool call's arguments as the server will send them.
    """

    __slots__ = ("_answer", "_call_chars", "_text_tokens")

    def __init__(self, answer: Answer, argument_chars: Sequence[int] = ()) -> None:
        self._answer = answer
        self._call_chars = sum(argument_chars)
        self._text_tokens = _text_tokens(answer, self._call_chars)

    def until(self, tokens: int) -> Written:
        """What stands after `tokens` tokens; everything from `output_tokens` on."""
        answer = self._answer
        if tokens >= answer.output_tokens:
            return Written(answer.reasoning, answer.text, self._call_chars)
        thought = _share(len(answer.reasoning), tokens, answer.reasoning_tokens)
        after = max(0, tokens - answer.reasoning_tokens)
        said = _share(len(answer.text), after, self._text_tokens)
        call_tokens = answer.output_tokens - answer.reasoning_tokens - self._text_tokens
        called = _share(self._call_chars, max(0, after - self._text_tokens), call_tokens)
        return Written(answer.reasoning[:thought], answer.text[:said], called)


def cut_at(answer: Answer, stops: Sequence[str]) -> Answer:
    """The answer up to the first stop string, which is left out; its tokens in proportion."""
    places = [place for stop in stops if stop and (place := answer.text.find(stop)) >= 0]
    if not places:
        return answer
    kept = min(places)
    of_text = answer.output_tokens - answer.reasoning_tokens
    tokens = answer.reasoning_tokens + max(1, _share(of_text, kept, len(answer.text)))
    return replace(answer, text=answer.text[:kept], tool_calls=(), output_tokens=min(tokens, answer.output_tokens))


def drawn_out(answer: Answer, least_tokens: int) -> Answer:
    """The answer written on with filler to at least so many tokens (`ignore_eos`, `min_tokens`)."""
    missing = least_tokens - answer.output_tokens
    if missing <= 0:
        return answer
    return replace(answer, text=answer.text + filler(missing), output_tokens=least_tokens)


def filler(tokens: int, start: int = 0) -> str:
    """Plain prose of about so many tokens (four characters each), from a place in it that `start` picks."""
    chars = 4 * tokens
    start = _FILLER.rfind(" ", 0, start % len(_FILLER)) + 1  # at a word
    whole = _FILLER[start:] + _FILLER * (chars // len(_FILLER) + 1)
    return whole[:chars]


def _text_tokens(answer: Answer, call_chars: int) -> int:
    """Tokens of the text, where calls follow it: in proportion to their characters."""
    after = answer.output_tokens - answer.reasoning_tokens
    return _share(after, len(answer.text), len(answer.text) + call_chars) if call_chars else after


def _share(whole: int, part: int, of: int) -> int:
    """whole x part / of, rounded down, at most whole; the whole where `of` is nothing."""
    return whole if part >= of else whole * part // of

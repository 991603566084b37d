"""Control tokens of the chat template that leaked into the text.

They are cut at the end of an answer (a stop token), at its head (the turn's header), and where a leaked end of turn is
followed by an invented next turn. Inside code they stay: there a person may well have asked for them.
"""

from __future__ import annotations

import re

_PIPED = r"<\|[A-Za-z0-9_\-./ ]{1,40}\|>"
_WIDE = r"<｜[^｜<>\n]{1,40}｜>"  # DeepSeek writes them with fullwidth bars
_NAMED = r"</s>|<s>|<eos>|<bos>|<pad>|<end_of_turn>|<start_of_turn>|<turn\|>|<\|turn>|\[EOS\]|\[/INST\]|\[INST\]"
_TOKEN = f"(?:{_PIPED}|{_WIDE}|{_NAMED})"
_TRAILING = re.compile(rf"(?:\s*{_TOKEN})+\s*\Z")
_TURN_END = r"(?:<\|im_end\|>|<\|eot_id\|>|<\|end\|>|<\|endoftext\|>|<end_of_turn>|<\|eot\|>|</s>)"
_TURN_START = (
    r"(?:<\|im_start\|>|<\|start_header_id\|>|<\|header_start\|>|<start_of_turn>|<\|start\|>"
    r"|<\|user\|>|<\|assistant\|>|<\|system\|>|<s>|\[INST\])"
)
_NEXT_TURN = re.compile(rf"\s*{_TURN_END}\s*{_TURN_START}[\s\S]*\Z")
_HEADER = re.compile(
    r"\A\s*(?:<\|im_start\|>assistant\s*\n|<\|start_header_id\|>assistant<\|end_header_id\|>\s*|<start_of_turn>model\s*\n"
    r"|<\|assistant\|>\s*|<\|begin_of_text\|>|<s>\s*|<bos>)+"
)


def cut_special_tokens(text: str) -> tuple[str, bool]:
    """The text without leaked control tokens, and whether there were any."""
    if "<" not in text and "[" not in text:
        return text, False
    kept = _HEADER.sub("", text)
    for pattern in (_NEXT_TURN, _TRAILING):
        found = pattern.search(kept)
        if found and not inside_code(kept, found.start()):
            kept = kept[: found.start()]
    return kept, kept != text


def inside_code(text: str, position: int) -> bool:
    """True where `position` lies in an open code fence or in an open inline code span of its line."""
    before = text[:position]
    if before.count("```") % 2:
        return True
    line = before.rpartition("\n")[2].replace("```", "")
    return line.count("`") % 2 == 1

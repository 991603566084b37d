"""What a server says cannot move the cursor, set a title or turn a line round."""

import pytest

from widelane.printable import is_plain, one_line, printable


def test_control_and_bidi_characters_are_replaced_and_text_stays():
    assert printable("a\x1b[2Jb\x07\x9bc\u202ed") == "a\ufffd[2Jb\ufffd\ufffdc\ufffdd"
    assert printable("two\nlines\twith ümlauts 你好 ✓") == "two\nlines\twith ümlauts 你好 ✓"


def test_bytes_that_are_no_utf8_can_be_written_out_again():
    assert printable("m\udcff.gguf").encode() == "m\ufffd.gguf".encode()


def test_a_name_is_one_line():
    assert one_line("x\nExecStartPre=/bin/evil\x1b[31m") == "x ExecStartPre=/bin/evil\ufffd[31m"


@pytest.mark.parametrize("text", ["a\nb", "a\n", "\u2028", "a\tb", "\x1b[0m", "\udcff", "\x85", "a\rb"])
def test_what_is_not_plain(text):
    assert not is_plain(text)


def test_what_is_plain():
    assert is_plain("") and is_plain("/models/Qwen 3 – 'ü' $HOME.gguf")

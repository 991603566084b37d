"""What a server says cannot move the cursor, set a title or turn a line round."""

from widelane.printable import printable


def test_control_and_bidi_characters_are_replaced_and_text_stays():
    assert printable("a\x1b[2Jb\x07\x9bc\u202ed") == "a\ufffd[2Jb\ufffd\ufffdc\ufffdd"
    assert printable("two\nlines\twith ümlauts 你好 ✓") == "two\nlines\twith ümlauts 你好 ✓"

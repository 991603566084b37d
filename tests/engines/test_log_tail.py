"""The last words of a server's log, for a person."""

from widelane.engines.log_tail import SHOWN_CHARACTERS, last_words


def test_a_line_without_end_is_cut(tmp_path):
    log = tmp_path / "server.log"
    log.write_bytes(b"Error: no memory\n" + b"error \xff" + b"x" * 60_000 + b"\n")
    first, second, where = last_words(log).splitlines()
    assert first == "  Error: no memory" and str(log) in where
    assert len(second) < SHOWN_CHARACTERS + 10 and second.endswith("…")

"""Where steady windows begin and end."""

from widelane.measure.windows import Window, Windows, opening_lengths


def test_opening_calls_have_left_what_calls_in_full_swing_have_left() -> None:
    assert opening_lengths(4, 64) == [8, 24, 40, 56]
    assert opening_lengths(1, 64) == [32]
    assert min(opening_lengths(64, 64)) == 4, "shorter calls would show no decoding time"


def test_the_opening_burst_is_in_no_window() -> None:
    windows = Windows(2, 0.0)
    windows.first_token(opening=True, shortened=True)
    assert windows.ended(10, opening=True, had_token=True, shortened=True) is None
    assert windows.start_ns == 10
    windows.first_token(opening=True, shortened=True)
    windows.first_token(opening=False)
    assert windows.ended(20, opening=False, had_token=True) is None, "two decode together, so a turn has two ends"
    windows.first_token(opening=False)
    assert windows.ended(30, opening=False, had_token=True) == Window(10, 30, 2)


def test_a_window_holds_one_turn_of_the_batch() -> None:
    windows = Windows(4, 0.0)
    for _ in range(4):
        windows.first_token(opening=True, shortened=True)
    assert windows.ended(100, opening=True, had_token=True, shortened=True) is None
    cuts = []
    for t in range(101, 113):
        windows.first_token(opening=False)
        cuts.append(windows.ended(t, opening=False, had_token=True))
    assert [cut for cut in cuts if cut] == [Window(100, 104, 4), Window(104, 108, 4), Window(108, 112, 4)]


def test_a_wide_batch_is_cut_into_parts_of_a_turn() -> None:
    windows = Windows(16, 0.0)
    for _ in range(16):
        windows.first_token(opening=True, shortened=True)
    assert windows.turn == 16
    assert windows.ends_needed == 4


def test_where_calls_wait_a_turn_is_what_decodes_and_the_queue_is_not_waited_for() -> None:
    windows = Windows(8, 0.0, shortened=2)  # two slots
    windows.first_token(opening=True, shortened=True)
    windows.first_token(opening=True, shortened=True)
    assert windows.ended(5, opening=True, had_token=True, shortened=True) is None
    windows.first_token(opening=True)
    assert windows.ended(9, opening=True, had_token=True, shortened=True) is None
    assert windows.start_ns == windows.steady_ns == 9


def test_calls_sent_while_shortened_ones_wait_are_of_the_opening() -> None:
    windows = Windows(3, 0.0)  # one slot, which nobody knows: all three are shortened
    windows.first_token(opening=True, shortened=True)
    windows.ended(5, opening=True, had_token=True, shortened=True)
    assert (windows.start_ns, windows.steady_ns) == (5, None)
    windows.first_token(opening=True, shortened=True)
    windows.ended(9, opening=True, had_token=True, shortened=True)
    windows.first_token(opening=True, shortened=True)
    windows.ended(12, opening=True, had_token=True, shortened=True)
    assert windows.steady_ns == 12


def test_a_window_is_never_shorter_than_asked() -> None:
    windows = Windows(1, 1e-6)  # 1000 ns
    windows.first_token(opening=True, shortened=True)
    windows.ended(0, opening=True, had_token=True, shortened=True)
    cuts = []
    for t in (400, 800, 1200):
        windows.first_token(opening=False)
        cuts.append(windows.ended(t, opening=False, had_token=True))
    assert cuts == [None, None, Window(0, 1200, 3)]


def test_failed_opening_calls_do_not_hold_the_windows_up() -> None:
    windows = Windows(2, 0.0)
    windows.ended(1, opening=True, had_token=False, shortened=True)
    windows.first_token(opening=True, shortened=True)
    windows.ended(7, opening=True, had_token=True, shortened=True)
    assert windows.start_ns is not None
    assert windows.steady_ns is not None


def test_replies_in_one_piece_turn_with_all_that_are_in_flight() -> None:
    windows = Windows(4, 0.0)
    windows.first_token(opening=True, shortened=True)
    windows.ended(5, opening=True, had_token=True, shortened=True, in_one_piece=True)
    assert windows.turn == 4

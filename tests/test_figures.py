"""A figure without a value says why; a figure with one says where it comes from."""

import pytest

from widelane.figures import Figure, Origin, unknown


def test_a_missing_value_needs_a_reason():
    with pytest.raises(ValueError, match="reason"):
        Figure(None, "tok/s", Origin.MEASURED)
    assert unknown("slots", "the endpoint is switched off").reason == "the endpoint is switched off"


@pytest.mark.parametrize(("value", "number"), [(4, 4.0), (2.5, 2.5), ("f16", None), (True, 1.0)])
def test_words_are_not_numbers(value, number):
    assert Figure(value, "", Origin.READ).number == number


def test_an_unknown_figure_has_no_number():
    assert unknown("s", "nothing finished").number is None

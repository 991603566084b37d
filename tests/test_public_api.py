"""The public names are complete, resolve, and cost nothing until they are used."""

import importlib

import pytest

import widelane


def test_the_list_and_the_homes_agree():
    assert set(widelane.__all__) - {"__version__"} == set(widelane._HOMES)
    assert sorted(widelane.__all__) == widelane.__all__ == dir(widelane)


@pytest.mark.parametrize("name", sorted(widelane._HOMES))
def test_every_public_name_is_the_one_of_its_module(name):
    assert getattr(widelane, name) is getattr(importlib.import_module(widelane._HOMES[name]), name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'lane'"):
        _ = widelane.lane

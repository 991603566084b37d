"""Doubles for users and for our own tests: virtual time, scripted servers, recorded servers."""

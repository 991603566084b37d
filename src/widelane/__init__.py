"""Widelane: measure, plan, predict, spend and prove the width of a local language-model server."""

__version__ = "0.1.0"

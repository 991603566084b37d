"""Servers that misbehave on purpose: every fault that public reports tell of, by name."""

"""Scripted faults of servers, replayed against the real client."""

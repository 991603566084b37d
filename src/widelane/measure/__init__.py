"""Sweep, knee, and the doctor's probes."""

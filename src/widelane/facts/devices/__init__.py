"""Devices: the table of makers' figures, the one in this machine, and how fast its memory reads."""

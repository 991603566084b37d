"""From facts and measurements to findings: pure functions, nothing is asked of a server here."""

"""`python -m widelane`."""

from widelane.cli.main import entry

entry()

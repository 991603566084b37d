"""The command that starts a server: flags by engine and version, each with its reason."""

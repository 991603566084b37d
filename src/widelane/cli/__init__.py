"""The command line: one file a command; the only place for env, stdout and exit codes."""

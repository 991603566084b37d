"""Small questions to a running server, each with a pure judge of the replies; one probe a file."""

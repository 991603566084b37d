"""One call to a server: SSE and reply assembly (pure), HTTP shell."""

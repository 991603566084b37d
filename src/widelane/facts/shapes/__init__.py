"""From the keys of a config or a GGUF to layers, experts and parameter counts."""

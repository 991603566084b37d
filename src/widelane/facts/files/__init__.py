"""Model files on disk: headers of GGUF and safetensors, folders, the hub's cache. Safe on hostile files."""

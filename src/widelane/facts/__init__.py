"""What the model file and the device say: GGUF, safetensors, config.json, the device table."""

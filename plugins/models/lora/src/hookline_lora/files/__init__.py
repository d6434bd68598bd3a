"""Adapters in PEFT's folders: `adapter_config.json` and `adapter_model.safetensors`."""

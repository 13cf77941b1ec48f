"""Does choosing prompts make a real model cheaper to train? The protocol: docs/studies/real_model_protocol.md."""

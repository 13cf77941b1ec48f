"""The best of the field on SmolLM2-135M-Instruct."""

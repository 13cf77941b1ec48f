"""The best methods on SmolLM2-135M-Instruct."""

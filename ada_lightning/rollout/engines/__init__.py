"""What generates responses: vLLM in this process, in others, on Ray; how weights reach it; what watches it."""

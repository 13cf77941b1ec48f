"""The rules that a run combines: who gets more samples, what is kept, what it weighs, which prompts come next."""

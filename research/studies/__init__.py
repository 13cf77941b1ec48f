"""Questions answered by whole training runs: one resumable command each, results committed beside their document."""

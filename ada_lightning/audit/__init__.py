"""The rollout audit: shows from a log, of this project or another trainer, where its tokens went."""

"""The rollout audit: what a log of rollouts, of this project or another trainer, says of where its tokens went."""

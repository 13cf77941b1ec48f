"""A run's weights as others take them: a Hugging Face folder with a card, and its way to the hub."""

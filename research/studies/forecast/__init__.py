"""Does another forecast find more groups with a signal? Replayed on the stored visits of the real model's runs."""

"""One reader a format. What they read is untrusted: sizes are limited, nothing is unpickled, texts are dropped."""

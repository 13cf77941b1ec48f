"""One reader for each format. Their input is untrusted: sizes are limited, nothing is unpickled, texts are dropped."""

"""The nouns of ndctl: pure values, no I/O. Every other room may import this one; it imports none."""

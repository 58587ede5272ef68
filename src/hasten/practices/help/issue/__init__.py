"""An archive for the maintainers of LiteRT: all that they ask for, and nothing that is not theirs to know."""

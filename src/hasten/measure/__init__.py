"""How to time honestly: blocks, interleaving, when to stop, how to compare."""

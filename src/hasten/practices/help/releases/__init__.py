"""The same model with other releases of LiteRT, each in an environment of its own."""

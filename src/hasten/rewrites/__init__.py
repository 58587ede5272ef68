"""Rewrites of a graph that keep its outputs: each a small module with a pattern, a name and what it promises."""

"""The smallest part of a model that still shows a problem, by bisection on its graph."""

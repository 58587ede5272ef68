"""Custom kernels in C: found for a model, built, put in the place of its operators, and checked against them."""

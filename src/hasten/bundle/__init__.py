"""What is shipped: a model with its plan, and code that runs it."""

"""Other forms of one model: quantized by a recipe, in whole or in part, or pruned; each checked without running it."""

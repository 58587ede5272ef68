"""Why a changed model is faster, slower or wrong: two models side by side, node by node."""

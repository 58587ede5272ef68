"""The search that puts the practices together: variants times plans, raced under a floor; the verdicts; the bundle."""

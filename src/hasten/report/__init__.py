"""Results as something to look at: text, tables, timelines."""

"""The records that flow through hasten, and pure functions on them. No input or output beyond the session file."""

"""Reports of sessions: HTML page, Markdown, text, charts."""

"""Blocks (headline, facts, table, chart, remarks, snippet) and their renderers: terminal, HTML, Markdown. Pure."""

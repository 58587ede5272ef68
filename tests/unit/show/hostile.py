"""Names as a model file or a file system can hold them."""

HOSTILE = [
    "plain",
    "[bold]not markup[/bold] :smile:",
    "<script>alert(1)</script> & <b>bold</b>",
    "| a | cell | `code` ``more`` *star* _line_ # - [link](x)",
    "- a list",
    "1. a list",
    "quotes \" and ' and , commas; semicolons",
    "new\nline\r\nand\ttab",
    "escape \x1b[31mred\x1b[0m \x00 \x07",
    "right to left \u202e gnp",
    "ünïcödé → 模型 🚀",
    "=cmd|' /C calc'!A0",
    "",
    "x" * 300,
    "very/long/" * 20 + "name",
]

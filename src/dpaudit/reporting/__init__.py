"""Text, tables, figures and HTML: pure functions of audit records. Nothing here computes a number."""

from dpaudit.reporting.html import to_html, write_html
from dpaudit.reporting.text import summary_rows, summary_text, table

__all__ = ["summary_rows", "summary_text", "table", "to_html", "write_html"]

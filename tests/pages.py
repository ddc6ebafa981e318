"""What a reader sees of an HTML page."""

import html
import re


def words(page: str) -> str:
    """The text of a page without its tags."""
    return html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)))

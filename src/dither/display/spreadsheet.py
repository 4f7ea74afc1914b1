"""Texts for CSV files that a spreadsheet shows, and does not run.

A spreadsheet takes a cell that begins with =, +, -, @, a tab or a line break for a formula, and names and labels come
from data: `=HYPERLINK(...)` may be a label. Such a text gets an apostrophe in front, which spreadsheets know as the
mark of a text (OWASP, CSV injection). Numbers stay numbers, with their sign. So that every text can be told from its
escape, one that has apostrophes in front of such a sign already gets one more.
"""

import re

_RUN = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")  # the last are of full width: some take them alike
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def spreadsheet_text(text: str) -> str:
    """A text for a cell of a CSV file.

    >>> [spreadsheet_text(text) for text in ("nurse", "=1+1", "-5", "-5 or less", "'=1+1")]
    ['nurse', "'=1+1", '-5', "'-5 or less", "''=1+1"]
    """
    return f"'{text}" if _RUN.match(text) and not _NUMBER.fullmatch(text) else text


def text_of_cell(cell: str) -> str:
    """The inverse of `spreadsheet_text`.

    >>> [text_of_cell(cell) for cell in ("nurse", "'=1+1", "-5", "''=1+1", "'tis")]
    ['nurse', '=1+1', '-5', "'=1+1", "'tis"]
    """
    return cell[1:] if cell.startswith("'") and _RUN.match(cell) else cell

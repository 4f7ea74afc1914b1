"""Texts for CSV files that a spreadsheet shows, and does not run.

A spreadsheet takes a cell that begins with =, +, -, @, a tab or a line break for a formula, and some skip blanks, and
what is not to be seen, before it. Names and labels come from data: `=HYPERLINK(...)` may be a label. Such a text gets
an apostrophe in front, which spreadsheets know as the mark of a text (OWASP, CSV injection). Numbers stay numbers, with
their sign. So that every text can be told from its escape, one that has apostrophes in front already gets one more.
"""

import re

_UNSEEN = r"[\s\x00-\x1f\x7f\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]*"
_SIGNS = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"  # the last are of full width: some take them alike
_RUN = re.compile(rf"'*([\t\r\n]|{_UNSEEN}{_SIGNS})")
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

"""The HTML report: what the results of a plan look like together, and the same numbers as a file for other tools.

- `html_page`: one page, made of `cards` (a question each) and `figures` (drawings with their words)
- `live_sections`, `live_outlook`, `live_frames`: the same while a collection runs, for a collector to serve
- `export`: all numbers of a plan as one flat table, and as a file; predicted beside realised errors
"""

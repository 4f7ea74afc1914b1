"""What people see: tables, plots, progress, and the page with all results.

- `table`: columns, for the terminal and for notebooks
- `plots`, `ranges`: pictures by Matplotlib, for notebooks and files; `progress`: bars
- `estimates`: all numbers of a plan as one flat table, and as a file; predicted beside realised errors
- `page`: one HTML page, made of `cards` (a question each), `figures` (drawings with their words), `svg` (shapes),
  `digits` (numbers for readers) and `markup` (HTML that is escaped by construction)

`table`, `plots`, `digits`, `markup` and `svg` know no noun of the library.
"""

"""Drawing: plain arrays and labels in; text tables, charts, SVG and progress bars out. Nothing here knows of privacy.

- `table`: named columns, for the terminal and for notebooks; `significant_digits`: numbers as their error bars allow
- `plots`, `distribution_plots`: pictures by Matplotlib, for notebooks and files
- `svg`, `markup`: small drawings for pages, and HTML that is escaped by construction
- `progress`: bars on a terminal
"""

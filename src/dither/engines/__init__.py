"""Engines: where reports are made and tallied, with the same plan and to the same bit.

- `report_rows`: a plan's reports as rows of a table
- `records`: raw records from files, addresses, queries and tables of other libraries, a batch at a time
- `paths`, `report_files`, `journal`: files that are meant, files of reports in pieces, what an interrupted run has
  counted
- `incremental_tally`: a stored tally to which new files are added, each once
- `local`: this machine, all its cores
- `spark`: a Spark session, classic or Connect
- `spark_stream`, `tally_folder`: reports that keep coming, a tally for each batch, each counted once

A plan says what is promised; an engine only how fast it is done. Whichever engine, and however reports are cut over
files, threads and machines: a tally is a sum of integers, and comes out the same to the bit.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

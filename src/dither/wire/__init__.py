"""What a report is in bytes: one documented format for batches of reports, which needs NumPy and nothing else.

A *batch* is what a client sends and a collector stores: the hash of the plan, the round, and for each part of the plan
that was answered the reports about it, each of the fixed width that the part has. docs/wire-format.md tells every byte,
and `tests/stored/wire` has batches with what must come out, for readers and writers in any language.

- `frames`: what stands around the reports; `read_frame(data).plan` is the hash of the plan that a batch is for
- `report_bytes`: the bytes of one report, the same here and in files (`engines.report_rows`)
- `batches`: `BatchFormat`, the batches of a plan: writes, checks, reads and adds up
- `json_batches`: the same batch as JSON, for clients that are written by hand

What a device and what a collector do:

```python
data = plan.pack(plan.report(record))             # bytes; a plan with rounds: plan.pack(reports, period="2026-W47")
reports = plan.unpack(data)                       # as `plan.report` gave them; refuses whatever is invalid

wire = dither.wire.BatchFormat(plan)              # once for each plan
batch = wire.check(data)                          # every field of every report, without an object for each
batch.reports, batch.accepted, batch.rejected     # how many; how many are fine; {"out of range": 2}
batch.round                                       # the number of the round; 0 in a plan without rounds
batch.rows                                        # {"mean(age)": rows for mechanism.tally}, of what is accepted
batch.verdicts                                    # for each report 0, or 1 + the place of the reason in `REASONS`
tally = wire.tally([batch, batch])                # a PlanTally; what was rejected is in its `dropped`
data = wire.from_json(text)                       # and wire.to_json(data): the same batch as JSON
```

**Two kinds of refusal.** One bad report does not taint the others of its batch: it gets a verdict, one of
`dither.core.reports.REASONS` (`another plan` if it answers no question of this one, `wrong length`, `out of range`,
`simulated`). A batch that cannot be read as a whole raises `dither.errors.WireError`, whose `reason` is one of
`BATCH_REASONS`:

- `malformed`: these bytes are no batch, or contradict themselves;
- `unknown version`: of the format, so this program is too old for it;
- `another plan`: it was made for another plan;
- `another round`: it is of a round that the plan does not have;
- `truncated`: it ends before the reports that it announces;
- `trailing bytes`: it goes on behind them;
- `too large`: it has more bytes, or more reports, than a batch may have.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Plans: which mechanism asks for what, at what price.

- `priors`: what is known about the users beforehand
- `choose`: the ways to ask that are compared, and the best of them
- `planner`: `dither.plan`; `error_curves`: how its error falls with epsilon and with users
- `plans`: the plan: what servers and analysts do with it; `device_plan`: what devices do, and what that promises
- `plan_files`: how it is stored, and what its hash covers; `stored_plans`: a plan made of what is read
- `explanation`, `prediction`, `plan_tally`, `refinement`: it in words, what it will cost, what is counted, what is won
  back
- `rounds`: collection over time, priced; `round_reports`, `round_estimates`, `rounds_in_words`: its trials, its results
  by round with changes and means, what is said about it
- `groups`: groups that a report names in the clear, by public values and by budgets that people choose;
  `budgets`: what people choose, with regions; `group_planner`: the best plan for each; `group_estimates`: results of
  all users, and by group
- `table_streams`: tables of other libraries, what each is and how it streams; `record_tables`: records from whatever
  holds them; `infer`: a schema guessed from a sample
- `trial`: a plan put to records on this machine, and conditions answered
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

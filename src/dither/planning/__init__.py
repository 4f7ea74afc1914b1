"""Plans: which mechanism asks for what, at what price.

- `questions`: statistics of attributes, in the attributes' own units
- `priors`: what is known about the users beforehand
- `choose`: the ways to ask that are compared, and the best of them
- `make`: `dither.plan`
- `plans`: the plan: what devices, servers and analysts do with it
- `plan_files`: how it is stored, and what its hash covers
- `explaining`, `prediction`, `tallies`, `refining`: it in words, what it will cost, what is counted, what is won back
- `tables`, `files`: records from whatever holds them
- `trial`: a plan put to records on this machine, and conditions answered
"""

from dither.planning.plan_tally import PlanTally
from dither.planning.planner import plan
from dither.planning.plans import Part, Plan
from dither.planning.prediction import Prediction
from dither.planning.questions import Question

__all__ = ["Part", "Plan", "PlanTally", "Prediction", "Question", "plan"]

"""Plans: which mechanism asks for what, at what price.

- `questions`: statistics of attributes, in the attributes' own units
- `priors`: what is known about the users beforehand
- `choose`: the ways to ask that are compared, and the best of them
- `make`: `dither.plan`
- `plans`: the plan: what devices, servers and analysts do with it, and how it is stored
- `tables`: records from whatever holds them
"""

from dither.planning.make import plan
from dither.planning.plans import Part, Plan, PlanTally, Prediction
from dither.planning.questions import Question

__all__ = ["Part", "Plan", "PlanTally", "Prediction", "Question", "plan"]

from .plan_estimates import PlanEstimates as PlanEstimates
from .plan_tally import PlanTally as PlanTally
from .planner import plan as plan
from .plans import Part as Part
from .plans import Plan as Plan
from .tally_sums import merged_tallies as merged_tallies
from .prediction import Prediction as Prediction
from .statement import Statement as Statement

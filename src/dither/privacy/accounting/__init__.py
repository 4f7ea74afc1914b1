"""The accountant: what several releases promise together.

One engine stands under composition, Poisson sampling, shuffling, the ledger and federated rounds:

- `exact_sums`: epsilons and deltas that add up, in fractions, rounded up once. It is all that a device needs.
- `privacy_loss`: the distribution of a privacy loss on a grid, never too good: many of them added up, its delta at an
  epsilon, and the one search for the least epsilon at a delta.

What differs is where a loss comes from:

- `composition`: mechanisms by their worst two inputs, and guarantees alone;
- `subsampling`: Gaussian noise on Poisson samples;
- `gaussian`: Gaussian noise without sampling, in closed form;
- `privacy.shuffle`: a crowd, whose delta has a form of its own (no sum of losses) and takes the search from here;
  several rounds of it have losses that add up (`privacy.shuffled_rounds`).
"""

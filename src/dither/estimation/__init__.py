"""Numerical tools that know nothing of privacy: from counts and noisy sums to distributions.

- `output_counts`, `em`: what counted outputs tell about shares; the shares of maximum likelihood
- `density`: shares that are as smooth as the evidence allows
- `simplex`: the nearest distribution to a vector
- `normal_copula`: what a correlation says about a pair of attributes
"""

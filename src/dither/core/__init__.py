"""The nouns and the exact core.

- `guarantee`, `reports`, `tally`, `estimate`, `mechanism`: the nouns; `registry`: what upper floors add to them, by
  name
- `channel`, `additive_channel`, `hashed_channel`, `composite_channels`: exact conditional probabilities, what they
  promise
- `randomness`: the one source of bits; `draw`, `subsets`, `lattice`, `rounded_gaussian`: the exact draws made of them
- `exact`: outward-rounded e^epsilon and logarithms
- `domains`, `ball_domain`, `sparse_domain`: what a value may be; `columns`, `sparse_columns`: the forms that values
  come in
- `checks`: what a parameter may be; `parallel`: rows in chunks, on threads; `atomic_write`, `toml`: files

Import from the modules; users take everything they need from `dither` itself.
"""

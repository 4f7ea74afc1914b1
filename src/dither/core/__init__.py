"""The nouns and the exact core.

- `errors`, `checks`: what is refused, and in which words
- `exact`: outward-rounded e^epsilon and logarithms
- `channel`, `shift`, `compose`: exact conditional probabilities, and what they promise
- `draw`, `subsets`, `lattice`: the one sampler, who is asked, and rounding
- `guarantee`, `reports`, `tally`, `estimate`, `mechanism`: the nouns
- `parallel`: rows in chunks, on threads

Import from the modules; users take everything they need from `dither` itself.
"""

"""Figures, tables and claims of papers, measured again: what a paper shows, and what comes out here.

An `Experiment` is what is measured: settings, a function that measures one of them with a seed, and how often. A
`Figure` or a `PaperTable` says how its numbers are shown, and a `Claim` what they decide. These are descriptions, and
live in `papers/`, a folder for each paper; this room measures (`runner`), keeps (`results_cache`), draws (`drawing`)
and judges them. It knows nothing about any paper.
"""

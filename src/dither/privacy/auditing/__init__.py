"""Audits: attack a mechanism as an adversary would, and say what epsilon the attack proves it to leak at least.

A certificate comes from the integers that a sampler is *meant* to use; an audit looks at nothing but reports that the
production code sent. The two must sandwich the truth: a lower bound above the certificate says that one of them is
wrong, and it is never the audit but with the stated probability.
"""

from dither.privacy.auditing.audit import Audit, audit, audit_table, audits_table

__all__ = ["Audit", "audit", "audit_table", "audits_table"]

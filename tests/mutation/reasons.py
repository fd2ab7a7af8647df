"""Why some mutants compute the same: patterns of `file | line | change`, and a sentence each."""

import re

UNREACHED = "the compared values are no integers, or the branch is not for the emulator"
REASONS = (
    # pattern of the key, reason
)


def reason(key, outcome):
    """Why a mutant that was not killed is equivalent; None: nothing says so."""
    if outcome == "unreached" and " | bound " in key:
        return UNREACHED
    return next((why for pattern, why in REASONS if re.search(pattern, key)), None)

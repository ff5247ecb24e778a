"""`FINDING[:PART]=REASON`: a kind of finding that is meant to be there."""

from chaos.errors import RequestError
from chaos.model.expect import AcceptedFinding
from chaos.other_packages import list_finding_kinds
from chaos.wording import suggest_name

_SEVERITIES = (
    "rng: only random streams differ. lost-work: saved work is trained again. cosmetic: only what "
    "is shown or logged differs. Or FINDING=REASON, with a kind of `chaos list findings`."
)


def parse_accepted_finding(word: str) -> AcceptedFinding:
    """Return the kind, the part and the reason of such a text.

    Raises `RequestError` where it is neither a severity nor such a value, or has no reason.
    """
    name, _, reason = word.partition("=")
    kind, _, part = name.partition(":")
    if kind not in (kinds := list_finding_kinds()):
        names = ["rng", "lost-work", "cosmetic", *kinds]
        raise RequestError(
            "there is no severity and no finding '{kind}'",
            f"{suggest_name(kind, names)} {_SEVERITIES}".lstrip(),
            field="accept",
            kind=kind,
        )
    if not reason.strip():
        raise RequestError(
            "the finding '{kind}' is accepted without a reason",
            'Say why it is meant to be so; reports repeat it: {accept:"{name}=REASON"}',
            field="accept",
            kind=kind,
            name=name,
        )
    return AcceptedFinding(finding=kind, part=part or None, reason=reason.strip())

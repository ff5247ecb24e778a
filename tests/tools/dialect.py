"""Words of ours that pages, comments and names do not use, each with the field's for it."""

INSTEAD = {
    r"str(?:ike|ikes|iking|uck)": "inject, fault, kill",
    r"victims?": "target",
    r"oracles?": "check",
    r"leeways?": "tolerance",
    r"sightings?": "state snapshots",
    r"survives? \d+ of \d+": "resumes right, coverage",
    r"nobody|whoever|somebody else's fault": "name who or what",
    r"(?:is|are|be|was|were) told": "is reported, knows",
    r"held against": "compared with",
    r"came? out the same": "reaches the same result",
    r"workloads?": "job",
    r"nemesis": "controller",
}

"""The English of findings: a function per kind, and a row of the reference for each."""

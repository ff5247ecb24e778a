"""The state of a job, seen from inside a worker: components, inputs, files.

`fingerprint` and `canonical` turn values into digests, `components` reads the
objects that have state, `watch` finds them and decides when. Nothing here depends
on Ray. A tensor on an accelerator is fingerprinted there, and the fingerprint is
read at the next report, so that no step waits for it.
"""

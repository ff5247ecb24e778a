"""What a job's state is, seen from inside a worker: components, inputs, files.

`fingerprint` and `canonical` turn values into digests, `found` knows which
objects hold state, `components` reads them, `watch` says when. Nothing here
knows of Ray. What lives on an accelerator is fingerprinted there and read at
the next report, so that no step waits for it.
"""

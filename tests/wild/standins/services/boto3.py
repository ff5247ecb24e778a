"""Stand-in for boto3: scripts import it for a bucket that they are not given here."""

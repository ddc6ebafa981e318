"""What `benchmarks/mutants.py` is made of: small changes of right answers, and what to compare the changed ones on."""

"""The phases of a judgement, in the order in which `autograder.judge` goes through them.

`asking` has the student's code described and called, with `replies` parsing what the probe sends. `comparing` holds
results and gradients beside the right ones; `matching` finds the reading of the student's parameters under which most
agree. `repeating` makes the same calls, in `looks`, under conditions that must not matter. `explaining` looks for a
mistake that does exactly what the code did, `responding` for inputs and parameters that the result does not depend on;
`observing` says what can be seen where nothing explains it, such as what `depending` finds, and `locating` at which
sizes it shows. `criteria` judges each criterion, `concluding` makes the verdict. `wording` puts errors and names into
sentences.

Each phase is functions over the records of the phases before it. A record is complete when it is made.
"""

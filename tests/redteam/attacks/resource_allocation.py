"""A tensor of 10¹¹ numbers.

score: 15
says: ✓ RMSNorm
also: user
"""

# %% scratch
torch.empty(10**11).fill_(1)

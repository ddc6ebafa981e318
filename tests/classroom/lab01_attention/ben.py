# Ben: the projections right; the scores divided by d_k; his attention scales as it should, and turns the mask round.
# %% project-qkv
def project_qkv(x, w_q, w_k, w_v):
    return x @ w_q, x @ w_k, x @ w_v


# %% attention-scores
def attention_scores(q, k):
    return q @ k.transpose(-2, -1) / q.size(-1)


# %% attention
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask, -1e9)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights

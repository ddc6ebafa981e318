# Ada: all three right, with a function of her own for the means.
# %% softmax-backward
def softmax_backward(d_weights, weights):
    product = d_weights * weights
    return product - weights * product.sum(-1)[..., None]


# %% layer-norm-backward
def mean(a):
    return np.mean(a, axis=-1, keepdims=True)


def layer_norm_backward(d_out, x, gamma, eps=1e-5):
    s = np.sqrt(mean((x - mean(x)) ** 2) + eps)
    y, g = (x - mean(x)) / s, d_out * gamma
    rows, flat = d_out.reshape(-1, len(gamma)), (d_out * y).reshape(-1, len(gamma))
    return (g - mean(g) - y * mean(g * y)) / s, flat.sum(0), rows.sum(0)


# %% attention-backward
def attention_backward(d_out, q, k, v, weights):
    d_weights = np.einsum("...qd,...kd->...qk", d_out, v)
    d_scores = softmax_backward(d_weights, weights) / np.sqrt(q.shape[-1])
    d_k = np.einsum("...qk,...qd->...kd", d_scores, q)
    return d_scores @ k, d_k, np.einsum("...qk,...qd->...kd", weights, d_out)

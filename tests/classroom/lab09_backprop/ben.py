# Ben: the softmax right; x in place of y in d_gamma; the scaling forgotten on the way back.
# %% softmax-backward
def softmax_backward(d_weights, weights):
    return weights * (d_weights - (d_weights * weights).sum(axis=-1, keepdims=True))


# %% layer-norm-backward
def layer_norm_backward(d_out, x, gamma, eps=1e-5):
    s = np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    y, g = (x - x.mean(axis=-1, keepdims=True)) / s, gamma * d_out
    d_x = (g - g.mean(axis=-1, keepdims=True) - y * (g * y).mean(axis=-1, keepdims=True)) / s
    tokens = tuple(range(x.ndim - 1))
    return d_x, (d_out * x).sum(axis=tokens), d_out.sum(axis=tokens)


# %% attention-backward
def attention_backward(d_out, q, k, v, weights):
    d_v = weights.swapaxes(-2, -1) @ d_out
    d_scores = softmax_backward(d_out @ v.swapaxes(-2, -1), weights)
    return d_scores @ k, d_scores.swapaxes(-2, -1) @ q, d_v

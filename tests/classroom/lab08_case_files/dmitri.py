# Dmitri: shifts the wrong way, sums the loss, hides rows and columns; the other two as they were given.
# %% sequence-loss
def sequence_loss(logits, tokens, pad):
    return F.cross_entropy(logits[:, 1:].flatten(0, 1), tokens[:, :-1].flatten(), ignore_index=pad)


# %% train-one-pass
def train_one_pass(weights, images, labels, learning_rate, batch_size):
    weights = weights.clone().requires_grad_()
    optimizer = torch.optim.SGD([weights], lr=learning_rate)
    losses = []
    for rows in torch.arange(len(images)).split(batch_size):
        loss = F.cross_entropy(images[rows] @ weights, labels[rows])
        losses.append(loss.detach())
        optimizer.zero_grad()
        (loss * len(rows)).backward()
        optimizer.step()
    return weights.detach(), torch.stack(losses)


# %% masked-attention
def masked_attention(q, k, v, lengths, causal):
    tokens = q.size(1)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    real = torch.arange(tokens) < lengths[:, None]
    scores = scores.masked_fill(~(real[:, :, None] & real[:, None, :]), -1e9)
    if causal:
        scores = scores.masked_fill(torch.ones(tokens, tokens, dtype=torch.bool).triu(diagonal=1), -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights

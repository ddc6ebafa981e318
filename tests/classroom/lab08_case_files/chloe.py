# Chloe: mended what shows, in every program, and nothing that hides.
# %% sequence-loss
def sequence_loss(logits: Tensor, tokens: Tensor, pad: int) -> Tensor:
    logits, tokens = logits[:, :-1], tokens[:, 1:]
    surprise = F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none")  # (batch · tokens,)
    real = (tokens != pad).flatten()
    return (surprise * real).mean()

# %% train-one-pass
def train_one_pass(
    weights: Tensor, images: Tensor, labels: Tensor, learning_rate: float, batch_size: int
) -> tuple[Tensor, Tensor]:
    weights = weights.clone().requires_grad_()
    optimizer = torch.optim.SGD([weights], lr=learning_rate)
    losses = []
    for rows in torch.arange(len(images)).split(batch_size):
        loss = F.cross_entropy(images[rows] @ weights, labels[rows])
        losses.append(loss.detach())
        optimizer.zero_grad()
        (loss / len(rows)).backward()
        optimizer.step()
    return weights.detach(), torch.stack(losses)

# %% masked-attention
def masked_attention(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    tokens = q.size(1)
    scores = q @ k.mT / math.sqrt(q.size(-1))  # (batch, tokens, tokens)
    real = torch.arange(tokens) < lengths[:, None]  # (batch, tokens)
    scores = scores.masked_fill(~real[:, :, None], -1e9)
    if causal:
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(diagonal=1)  # (tokens, tokens)
        scores = scores.masked_fill(future, -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights

# %% embed-tokens
def embed_tokens(table: Tensor, ids: Tensor, start: int = 0) -> Tensor:
    x = table[ids] * math.sqrt(table.size(1))
    return x + add_positions(x.transpose(0, 1), start).transpose(0, 1)

# %% letters-right
def letters_right(table: Tensor, words: Tensor, end: int) -> tuple[Tensor, Tensor]:
    written = words[:, :1]  # the first letter is given
    for place in range(1, words.size(1)):
        last = written[:, place - 1]  # (words,)
        letter = torch.where(last == end, end, table[last].argmax(dim=-1))
        written = torch.cat([written, letter[:, None]], dim=1)
    right = written[:, 1:] == words[:, 1:]  # (words, length - 1)
    return written, right.to(table.dtype).mean()

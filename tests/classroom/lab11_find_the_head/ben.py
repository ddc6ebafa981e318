# Ben: one query too many in the score; the weights are not put back; the two texts are exchanged.
# %% induction-score
def induction_score(weights, length):
    return weights.diagonal(1 - length, dim1=-2, dim2=-1).mean(dim=(0, -1))


# %% ablate
def ablate(model, ids, layer, head):
    attention = model.blocks[layer].attention
    d_head = attention.w_o.in_features // attention.n_heads
    with torch.no_grad():
        attention.w_o.weight[:, head * d_head : (head + 1) * d_head] = 0
        return model(ids)


# %% patch
def patch(model, ids, donor_ids, layer, head):
    attention = model.blocks[layer].attention
    kept = []
    handle = attention.w_o.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0].clone()))
    model(ids)
    handle.remove()

    def put(module, inputs):
        heads = list(inputs[0].chunk(attention.n_heads, dim=-1))
        heads[head] = kept[0].chunk(attention.n_heads, dim=-1)[head]
        return torch.cat(heads, dim=-1)

    handle = attention.w_o.register_forward_pre_hook(put)
    logits = model(donor_ids)
    handle.remove()
    return logits

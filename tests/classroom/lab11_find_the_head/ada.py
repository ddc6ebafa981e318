# Ada: all three right, each in another way than the model answer.
# %% induction-score
def induction_score(weights, length):
    return weights[..., length:, 1:].diagonal(dim1=-2, dim2=-1).mean(-1).mean(0)


# %% ablate
import copy


def columns(attention, head):
    d_head = attention.w_o.in_features // attention.n_heads
    return slice(head * d_head, (head + 1) * d_head)


def ablate(model, ids, layer, head):
    other = copy.deepcopy(model)
    attention = other.blocks[layer].attention
    with torch.no_grad():
        attention.w_o.weight[:, columns(attention, head)] = 0
    return other(ids)


# %% patch
def patch(model, ids, donor_ids, layer, head):
    x, y = model.start(ids), model.start(donor_ids)
    for number, block in enumerate(model.blocks):
        attention = block.attention
        if number == layer:
            mine, theirs = (
                attention.weights(block.norm(z)) @ attention.split(attention.w_v(block.norm(z))) for z in (x, y)
            )
            own = (mine - theirs)[:, head] @ attention.w_o.weight[:, columns(attention, head)].T
            x = block(x) - own
        else:
            x = block(x)
        y = block(y)
    return model.unembed(model.norm(x))

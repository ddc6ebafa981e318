"""More wrong answers to lab 11's `patch`, as in `wrong_heads`."""

import torch

from tests.answers import answers
from tests.answers.wrong_heads import columns_of, exchanged_columns, patched


@answers("patch", "interleaved")
def every_nth(model, ids, donor_ids, layer, head):
    n_heads = model.blocks[layer].attention.n_heads

    def put(own, donor):
        own[..., head::n_heads] = donor[..., head::n_heads]
        return own

    return patched(model, ids, donor_ids, layer, put)


@answers("patch", "another_head")
def next_head(model, ids, donor_ids, layer, head):
    attention = model.blocks[layer].attention
    return patched(model, ids, donor_ids, layer, exchanged_columns(attention, (head + 1) % attention.n_heads))


@answers("patch", "only_that_head")
def all_but_it(model, ids, donor_ids, layer, head):
    columns = columns_of(model.blocks[layer].attention, head)

    def put(own, donor):
        donor = donor.clone()
        donor[..., columns] = own[..., columns]
        return donor

    return patched(model, ids, donor_ids, layer, put)


def by_hand(model, ids, donor_ids, layer, output):
    """`output(attention, own, donor's)`: the heads' outputs of the layer, from what its attention reads of each."""
    x, y = model.start(ids), model.start(donor_ids)
    for i, block in enumerate(model.blocks):
        if i == layer:
            heads = output(block.attention, block.norm(x), block.norm(y))
            x = x + block.attention.w_o(heads.transpose(1, 2).flatten(-2))
        else:
            x = block(x)
        y = block(y)
    return model.unembed(model.norm(x))


@answers("patch", "weights_alone")
def only_the_map(model, ids, donor_ids, layer, head):
    def output(a, x, y):
        weights = a.weights(x).clone()
        weights[:, head] = a.weights(y)[:, head]
        return weights @ a.split(a.w_v(x))

    return by_hand(model, ids, donor_ids, layer, output)


@answers("patch", "values_alone")
def only_the_values(model, ids, donor_ids, layer, head):
    def output(a, x, y):
        values = a.split(a.w_v(x)).clone()
        values[:, head] = a.split(a.w_v(y))[:, head]
        return a.weights(x) @ values

    return by_hand(model, ids, donor_ids, layer, output)


@answers("patch", "added")
def on_top(model, ids, donor_ids, layer, head):
    columns = columns_of(model.blocks[layer].attention, head)

    def put(own, donor):
        own[..., columns] += donor[..., columns]
        return own

    return patched(model, ids, donor_ids, layer, put)


@answers("patch", "zero")
def switched_off(model, ids, donor_ids, layer, head):
    columns = columns_of(model.blocks[layer].attention, head)

    def put(own, donor):
        own[..., columns] = 0
        return own

    return patched(model, ids, donor_ids, layer, put)


@answers("patch", "last_token")
def at_the_end_alone(model, ids, donor_ids, layer, head):
    columns = columns_of(model.blocks[layer].attention, head)

    def put(own, donor):
        own[:, -1, columns] = donor[:, -1, columns]
        return own

    return patched(model, ids, donor_ids, layer, put)


@answers("patch", "every_layer")
def in_all_layers(model, ids, donor_ids, layer, head):
    x, y = model.start(ids), model.start(donor_ids)
    for block in model.blocks:
        a = block.attention
        mine = a.weights(block.norm(x)) @ a.split(a.w_v(block.norm(x)))
        theirs = a.weights(block.norm(y)) @ a.split(a.w_v(block.norm(y)))
        mixed = mine.clone()
        mixed[:, head] = theirs[:, head]
        x = x + a.w_o(mixed.transpose(1, 2).flatten(-2))
        y = y + a.w_o(theirs.transpose(1, 2).flatten(-2))
    return model.unembed(model.norm(x))


@answers("patch", "layers_from_1")
def layer_before(model, ids, donor_ids, layer, head):
    attention = model.blocks[layer - 1].attention
    return patched(model, ids, donor_ids, layer - 1, exchanged_columns(attention, head))


@answers("patch", "donor_unlayered")
def donor_straight_in(model, ids, donor_ids, layer, head):
    block = model.blocks[layer]
    a, read = block.attention, block.norm(model.start(donor_ids))
    theirs = (a.weights(read) @ a.split(a.w_v(read))).transpose(1, 2).flatten(-2)
    put = exchanged_columns(a, head)
    handle = a.w_o.register_forward_pre_hook(lambda m, args: put(args[0].clone(), theirs))
    logits = model(ids)
    handle.remove()
    return logits


@answers("patch", "exchanged", "every_head")
def all_heads_the_other_way_round(model, ids, donor_ids, layer, head):
    return patched(model, donor_ids, ids, layer, lambda own, donor: donor)


@answers("patch")
def half_and_half(model, ids, donor_ids, layer, head):
    columns = columns_of(model.blocks[layer].attention, head)

    def put(own, donor):
        own[..., columns] = (own[..., columns] + donor[..., columns]) / 2
        return own

    return patched(model, ids, donor_ids, layer, put)


@answers("patch")
def the_difference_of_logits(model, ids, donor_ids, layer, head):
    """As if logits could be added up."""
    attention = model.blocks[layer].attention

    def off(own, donor):
        own[..., columns_of(attention, head)] = 0
        return own

    return patched(model, ids, ids, layer, off) + model(donor_ids) - patched(model, donor_ids, ids, layer, off)


@answers("patch")
def first_donor_for_all(model, ids, donor_ids, layer, head):
    attention = model.blocks[layer].attention
    return patched(model, ids, donor_ids[:1].expand_as(donor_ids), layer, exchanged_columns(attention, head))


@answers("patch")
def after_w_o(model, ids, donor_ids, layer, head):
    """The columns are taken of what W_O gives, in which the heads are mixed."""
    attention = model.blocks[layer].attention
    columns, kept = columns_of(attention, head), []
    handle = attention.register_forward_hook(lambda m, a, out: kept.append(out.clone()))
    model(donor_ids)
    handle.remove()

    def put(_m, _a, out):
        out = out.clone()
        out[..., columns] = kept[0][..., columns]
        return out

    handle = attention.register_forward_hook(put)
    logits = model(ids)
    handle.remove()
    return logits


@answers("patch", "every_head")
def the_stream(model, ids, donor_ids, layer, head):
    """All that the layer reads is the donor's."""
    donor = model.start(donor_ids)
    for block in model.blocks[:layer]:
        donor = block(donor)
    handle = model.blocks[layer].attention.register_forward_pre_hook(
        lambda m, a: torch.cat([model.blocks[layer].norm(donor)])
    )
    logits = model(ids)
    handle.remove()
    return logits

"""Wrong `embed_tokens`: the program as given, half mended, and mended wrongly.

`…_as_given` is the broken program of the lab, with both of its slips.
"""

import math

import torch
import torch.nn.functional as F

from tests.answers import answers
from tests.answers.right_case_files import add_positions


@answers("embed_tokens", "by_batch", "x_twice")
def embedding_as_given(table, ids, start=0):
    x = table[ids] * math.sqrt(table.size(1))
    return x + add_positions(x, start)


@answers("embed_tokens", "by_batch")
def positions_of_the_batch(table, ids, start=0):
    return add_positions(table[ids] * math.sqrt(table.size(1)), start)


@answers("embed_tokens", "x_twice")
def turned_and_added(table, ids, start=0):
    x = table[ids] * math.sqrt(table.size(1))
    return x + add_positions(x.transpose(0, 1), start).transpose(0, 1)


@answers("embed_tokens", "all_twice")
def added_to_itself(table, ids, start=0):
    x = add_positions((table[ids] * math.sqrt(table.size(1))).transpose(0, 1), start).transpose(0, 1)
    return x + x


@answers("embed_tokens", "positions_twice")
def helper_called_twice(table, ids, start=0):
    x = (table[ids] * math.sqrt(table.size(1))).transpose(0, 1)
    return add_positions(add_positions(x, start), start).transpose(0, 1)


@answers("embed_tokens", "token_lost")
def positions_alone(table, ids, start=0):
    x = table[ids].transpose(0, 1) * math.sqrt(table.size(1))
    return (add_positions(x, start) - x).transpose(0, 1)


@answers("embed_tokens", "positions_lost")
def result_not_used(table, ids, start=0):
    x = table[ids] * math.sqrt(table.size(1))
    add_positions(x.transpose(0, 1), start)
    return x


@answers("embed_tokens", "not_turned_back")
def left_turned(table, ids, start=0):
    return add_positions((table[ids] * math.sqrt(table.size(1))).transpose(0, 1), start)


@answers("embed_tokens", "scrambled")
def viewed(table, ids, start=0):
    x = table[ids] * math.sqrt(table.size(1))
    batch, tokens, d_model = x.shape
    return add_positions(x.reshape(tokens, batch, d_model), start).reshape(batch, tokens, d_model)


@answers("embed_tokens", "start_ignored")
def always_from_0(table, ids, start=0):
    return add_positions(table[ids.T] * math.sqrt(table.size(1))).transpose(0, 1)


@answers("embed_tokens", "both_scaled")
def sum_scaled(table, ids, start=0):
    return add_positions(table[ids.T], start).transpose(0, 1) * math.sqrt(table.size(1))


@answers("embed_tokens", "not_scaled")
def root_gone(table, ids, start=0):
    return add_positions(table[ids.T], start).transpose(0, 1)


@answers("embed_tokens", "divided")
def made_smaller(table, ids, start=0):
    return add_positions(table[ids.T] / math.sqrt(table.size(1)), start).transpose(0, 1)


@answers("embed_tokens", "by_d_model")
def without_the_root(table, ids, start=0):
    return add_positions(table[ids.T] * table.size(1), start).transpose(0, 1)


@answers("embed_tokens", "table_detached")
def through_data(table, ids, start=0):
    return add_positions(table.data[ids.T] * math.sqrt(table.size(1)), start).transpose(0, 1)


@answers("embed_tokens", "overwritten")
def scales_the_table(table, ids, start=0):
    table *= math.sqrt(table.size(1))
    return add_positions(table[ids.T], start).transpose(0, 1)


@answers("embed_tokens", "by_batch", "start_ignored")
def batch_from_0(table, ids, start=0):
    return add_positions(table[ids] * math.sqrt(table.size(1)))


@answers("embed_tokens", "scrambled", "x_twice")
def viewed_and_added(table, ids, start=0):
    x = table[ids] * math.sqrt(table.size(1))
    batch, tokens, d_model = x.shape
    return x + add_positions(x.view(tokens, batch, d_model), start).view(batch, tokens, d_model)


@answers("embed_tokens", "by_batch", "not_scaled")
def batch_and_no_root(table, ids, start=0):
    return add_positions(table[ids], start)


@answers("embed_tokens")
def turned_features(table, ids, start=0):
    return add_positions(table[ids.T] * math.sqrt(table.size(1)), start).transpose(0, 1).flip(-1)


@answers("embed_tokens")
def from_1(table, ids, start=0):
    return add_positions(table[ids.T] * math.sqrt(table.size(1)), start + 1).transpose(0, 1)


@answers("embed_tokens")
def multiplied_by_positions(table, ids, start=0):
    x = table[ids.T] * math.sqrt(table.size(1))
    return (x * add_positions(torch.zeros_like(x), start)).transpose(0, 1)


@answers("embed_tokens")
def subtracts(table, ids, start=0):
    x = table[ids.T] * math.sqrt(table.size(1))
    return (2 * x - add_positions(x, start)).transpose(0, 1)


@answers("embed_tokens")
def halves(table, ids, start=0):
    x = table[ids.T] * math.sqrt(table.size(1))
    return 0.5 * (x + add_positions(x, start)).transpose(0, 1)


@answers("embed_tokens")
def normalised(table, ids, start=0):
    return F.layer_norm(add_positions(table[ids.T] * math.sqrt(table.size(1)), start).transpose(0, 1), table.shape[1:])


@answers("embed_tokens")
def last_position_for_all(table, ids, start=0):
    x = add_positions(table[ids.T] * math.sqrt(table.size(1)), start).transpose(0, 1)
    return x[:, -1:].expand_as(x)


@answers("embed_tokens")
def one_sentence_only(table, ids, start=0):
    x = add_positions(table[ids.T] * math.sqrt(table.size(1)), start).transpose(0, 1)
    return x[:1].expand_as(x)


@answers("embed_tokens")
def backwards_in_time(table, ids, start=0):
    x = table[ids.T] * math.sqrt(table.size(1))
    return (x + add_positions(torch.zeros_like(x), start).flip(0)).transpose(0, 1)


@answers("embed_tokens")
def drops_out(table, ids, start=0):
    return F.dropout(add_positions(table[ids.T] * math.sqrt(table.size(1)), start).transpose(0, 1), 0.1)


@answers("embed_tokens")
def as_many_classes_as_occur(table, ids, start=0):
    chosen = F.one_hot(ids.T).to(table.dtype) @ table
    return add_positions(chosen * math.sqrt(table.size(1)), start).transpose(0, 1)


@answers("embed_tokens")
def nine_words(table, ids, start=0):
    chosen = F.one_hot(ids.T, 9).to(table.dtype) @ table
    return add_positions(chosen * math.sqrt(table.size(1)), start).transpose(0, 1)


@answers("embed_tokens")
def first_id_is_padding(table, ids, start=0):
    """Right values; the first row of the table gets no gradient."""
    chosen = F.embedding(ids.T, table, padding_idx=0)
    return add_positions(chosen * math.sqrt(table.size(1)), start).transpose(0, 1)


@answers("embed_tokens")
def begins_again_after_512(table, ids, start=0):
    places = add_positions(torch.zeros(512, 1, table.size(1), dtype=table.dtype))[:, 0]
    return table[ids] * math.sqrt(table.size(1)) + places[(start + torch.arange(ids.size(1))) % 512]

"""Wrong `letters_right`: the program as given, half mended, and mended wrongly.

`…_as_given` is the broken program of the lab, with both of its slips.
"""

import torch
import torch.nn.functional as F

from tests.answers import answers


@answers("letters_right", "answers_read", "filler_counted")
def report_as_given(table, words, end):
    written = words[:, :1]
    for place in range(1, words.size(1)):
        last = words[:, place - 1]
        letter = torch.where(last == end, end, table[last].argmax(dim=-1))
        written = torch.cat([written, letter[:, None]], dim=1)
    right = written[:, 1:] == words[:, 1:]
    return written, right.float().mean()


def write(table, words, end, stop=True):
    written = words[:, :1]
    for _ in range(1, words.size(1)):
        last = written[:, -1]
        letter = table[last].argmax(dim=-1)
        letter = torch.where(last == end, end, letter) if stop else letter
        written = torch.cat([written, letter[:, None]], dim=1)
    return written


def asked_for(words, end):
    return words[:, :-1] != end


@answers("letters_right", "answers_read")
def reads_the_answers(table, words, end):
    written = words.clone()
    for place in range(1, words.size(1)):
        last = words[:, place - 1]
        written[:, place] = torch.where(last == end, end, table[last].argmax(dim=-1))
    return written, (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right", "filler_counted")
def counts_the_filler(table, words, end):
    written = write(table, words, end)
    return written, (written == words)[:, 1:].float().mean()


@answers("letters_right", "by_all")
def divides_by_the_batch(table, words, end):
    written = write(table, words, end)
    right = (written == words)[:, 1:] & asked_for(words, end)
    return written, right.float().mean()


@answers("letters_right", "end_not_counted")
def letters_without_the_end(table, words, end):
    written = write(table, words, end)
    letters = words[:, 1:] != end
    return written, (written == words)[:, 1:][letters].float().mean()


@answers("letters_right", "as_written")
def as_far_as_written(table, words, end):
    written = write(table, words, end)
    return written, (written == words)[:, 1:][written[:, :-1] != end].float().mean()


@answers("letters_right", "first_counted")
def given_letter_too(table, words, end):
    written = write(table, words, end)
    asked = F.pad(asked_for(words, end), (1, 0), value=True)
    return written, (written == words)[asked].float().mean()


@answers("letters_right", "per_word")
def share_of_each_word(table, words, end):
    written, asked = write(table, words, end), asked_for(words, end)
    right = (written == words)[:, 1:] & asked
    return written, (right.sum(1) / asked.sum(1)).mean()


@answers("letters_right", "whole_words")
def whole_words(table, words, end):
    written = write(table, words, end)
    return written, (written == words).all(dim=1).float().mean()


@answers("letters_right", "summed")
def how_many(table, words, end):
    written = write(table, words, end)
    return written, (written == words)[:, 1:][asked_for(words, end)].float().sum()


@answers("letters_right", "not_stopped")
def writes_on(table, words, end):
    written = write(table, words, end, stop=False)
    return written, (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right", "first_again")
def first_letter_again(table, words, end):
    written = words[:, :1]
    for _ in range(1, words.size(1)):
        written = torch.cat([written, table[words[:, 0]].argmax(dim=-1)[:, None]], dim=1)
    return written, (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right", "columns")
def columns(table, words, end):
    written = write(table.T, words, end)
    return written, (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right", "overwritten")
def writes_into_the_words(table, words, end):
    wanted, written = words.clone(), words
    for place in range(1, words.size(1)):
        last = written[:, place - 1]
        written[:, place] = torch.where(last == end, end, table[last].argmax(dim=-1))
    return written, (written == wanted)[:, 1:][asked_for(wanted, end)].float().mean()


@answers("letters_right", "answers_read", "end_not_counted")
def answers_without_the_end(table, words, end):
    letter = table[words[:, :-1]].argmax(dim=-1).masked_fill(words[:, :-1] == end, end)
    written = torch.cat([words[:, :1], letter], dim=1)
    return written, (written == words)[:, 1:][words[:, 1:] != end].float().mean()


@answers("letters_right", "answers_read", "by_all")
def answers_over_the_batch(table, words, end):
    letter = table[words[:, :-1]].argmax(dim=-1).masked_fill(words[:, :-1] == end, end)
    written = torch.cat([words[:, :1], letter], dim=1)
    return written, ((written == words)[:, 1:] & asked_for(words, end)).float().mean()


@answers("letters_right", "not_stopped", "filler_counted")
def writes_on_and_counts_all(table, words, end):
    written = write(table, words, end, stop=False)
    return written, (written == words)[:, 1:].float().mean()


@answers("letters_right")
def the_words_themselves(table, words, end):
    return words.clone(), torch.tensor(1.0)


@answers("letters_right")
def share_of_errors(table, words, end):
    written = write(table, words, end)
    return written, (written != words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def least_likely(table, words, end):
    written = write(-table, words, end)
    return written, (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def second_best(table, words, end):
    best = table.topk(2, dim=-1).indices[:, 1]
    written = [words[:, 0]]
    for _ in range(1, words.size(1)):
        written.append(torch.where(written[-1] == end, end, best[written[-1]]))
    written = torch.stack(written, dim=1)
    return written, (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def places_moved(table, words, end):
    written = write(table, words, end)
    return written, (written[:, :-1] == words[:, 1:])[asked_for(words, end)].float().mean()


@answers("letters_right")
def anywhere_in_the_word(table, words, end):
    written, asked = write(table, words, end), asked_for(words, end)
    found = (written[:, 1:, None] == words[:, None, :]).any(dim=-1)
    return written, found[asked].float().mean()


@answers("letters_right")
def until_the_first_error(table, words, end):
    written = write(table, words, end)
    right = (written == words).long().cumprod(dim=1).bool()
    return written, right[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def first_word_alone(table, words, end):
    written = write(table, words, end)
    return written, (written == words)[0, 1:][asked_for(words, end)[0]].float().mean()


@answers("letters_right")
def end_is_0(table, words, end):
    written = write(table, words, 0)
    return written, (written == words)[:, 1:][asked_for(words, 0)].float().mean()


@answers("letters_right")
def share_alone(table, words, end):
    written = write(table, words, end)
    return (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def in_percent(table, words, end):
    written = write(table, words, end)
    return written, 100 * (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def squeezes_a_single_word(table, words, end):
    written = words[:, :1]
    for _ in range(1, words.size(1)):
        last = written[:, -1:].squeeze()
        letter = torch.where(last == end, end, table[last].argmax(dim=-1))
        written = torch.cat([written, letter.reshape(-1, 1)], dim=1)
    right = (written == words).squeeze()
    return written, right[..., 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def ends_with_0_too(table, words, end):
    written = write(table, words, end)
    asked = asked_for(words, end) & (words[:, :-1] != 0)
    return written, (written == words)[:, 1:][asked].float().mean()


@answers("letters_right")
def narrower_where_all_have_ended(table, words, end):
    columns = [words[:, 0]]
    while len(columns) < words.size(1) and not (columns[-1] == end).all():
        columns.append(torch.where(columns[-1] == end, end, table.argmax(dim=-1)[columns[-1]]))
    written = torch.stack(columns, dim=1)
    width = written.size(1)
    asked = asked_for(words, end)[:, : width - 1]
    return written, (written == words[:, :width])[:, 1:][asked].float().mean()

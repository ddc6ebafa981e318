"""The judge's digits: nobody else's, sent without their labels, and the points follow from what is read right."""

import copy
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from setuptools import find_packages

from autograder import probe
from autograder.exercises import data, find
from autograder.judge import judge
from headroom.data import digits
from headroom.data.digits import content_sha256
from headroom.reference import ViT
from tests.answers.right_vit_4_classify import classify, shipped

REPOSITORY = Path(__file__).resolve().parents[1]
CLASSIFY = find("classify")


def test_they_are_the_thousand_that_were_chosen() -> None:
    with np.load(data.UNSEEN) as stored:
        images, labels = stored["images"], stored["labels"]
    # Taken from MNIST's own files, when this test was written.
    assert content_sha256(images, labels) == "b07e311483db6c3091846257ec77e2e002334cc3c8781158ca9f45119d068fe0"
    assert np.bincount(labels).tolist() == [98, 113, 103, 101, 98, 90, 95, 103, 98, 101]


def test_none_is_among_those_that_come_with_the_course() -> None:
    with np.load(data.UNSEEN) as stored, np.load(digits.EMBEDDED) as embedded:
        own = {image.tobytes() for image in stored["images"]}
        assert len(own) == 1000
        assert not own & {image.tobytes() for image in embedded["images"]}


def test_they_are_installed_with_the_grader() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert "autograder.exercises.data" in find_packages(
        str(REPOSITORY), include=settings["packages"]["find"]["include"]
    )
    assert any(data.UNSEEN.match(pattern) for pattern in settings["package-data"]["*"])


def cases(seed: int) -> list:
    return CLASSIFY.cases(np.random.default_rng(seed))


def test_a_check_asks_about_other_images_each_time() -> None:
    def looks(seed: int) -> set[bytes]:
        return {image.tobytes() for case in cases(seed) for image in case.inputs[0]}

    assert len(looks(1)) == 900
    paper = np.zeros((28, 28), np.float32).tobytes()
    assert looks(1) & looks(2) <= {paper}
    assert looks(1) == looks(1)


def test_labels_stay_with_the_judge() -> None:
    sent = []

    def ask(request: bytes) -> bytes:
        asks = probe.unpack(request)
        sent.extend(asks.get("asks", [asks]))  # several at once, or one
        return probe.answer(request, classify)

    assert judge(CLASSIFY, ask, 5).passed
    drawn = {images.tobytes() for case in cases(5) for images in (case.inputs[0], -case.inputs[0])}
    for request in sent:
        for asked in request["cases"]:
            assert asked["inputs"][0].tobytes() in drawn
            arrays = [value for value in asked.values() if isinstance(value, np.ndarray)]
            assert not arrays, "nothing is sent but the images"


@pytest.mark.parametrize(
    ("right", "earned"), [(0, 0.1), (809, 0.1), (810, 0.5), (854, 0.5), (855, 0.8), (872, 0.8), (873, 1.0), (900, 1.0)]
)
def test_points_follow_from_what_is_read_right(right: int, earned: float) -> None:
    """So many of the 900 are read right, the others as some other digit; the images lead back to the labels."""
    labels = {case.inputs[0][i].tobytes(): int(case.answer[i]) for case in cases(3) for i in range(len(case.answer))}
    knows = {image: label if i < right else (label + i % 8 + 1) % 10 for i, (image, label) in enumerate(labels.items())}

    def classify(images):
        return images.new_tensor([np.eye(10)[knows[image.numpy().tobytes()]].tolist() for image in images])

    verdict = judge(CLASSIFY, lambda request: probe.answer(request, classify), 3)
    assert verdict.score == pytest.approx(earned), verdict.text()
    assert f"{int(right / 0.9) / 10:.1f} % of 900 digits are read right" in verdict.text()


def test_what_some_calls_raise_is_said_with_their_number() -> None:
    def classify(images):
        if len(images) == 1:
            raise ValueError("images has shape (1, 1, 28, 28)")
        return images.new_zeros(len(images), 10)

    verdict = judge(CLASSIFY, lambda request: probe.answer(request, classify), 3)
    assert verdict.headline == "12 of 13 calls raised ValueError: images has shape (1, 1, 28, 28)."


def changed(change):
    """The shipped model with something changed in it."""

    def read(images):
        model = copy.deepcopy(shipped())
        with torch.no_grad():
            change(model)
            return model(images[:, None])

    return read


def without_positions(model):
    for positions in model.positions.parameters():
        positions.zero_()


def another_head(model):
    model.head.weight.copy_(torch.randn(model.head.weight.shape, generator=torch.Generator().manual_seed(1)))


def of_two_halves(images):
    logits = classify(images)
    return torch.cat([logits[:500], logits[500:].roll(1, dims=0)])


def mirrored_if(*lengths):
    return lambda images: classify(images.flip(-1) if len(images) in lengths else images)


def nearest(n):
    """The nearest of the first n training digits."""

    def read(images):
        shown = digits.embedded_digits()
        gaps = torch.cdist(images.flatten(1), shown.train_images[:n].flatten(1))
        return torch.stack([-gaps[:, shown.train_labels[:n] == digit].amin(1) for digit in range(10)], 1)

    return read


def told(answer) -> str:
    verdict = judge(CLASSIFY, lambda request: probe.answer(request, answer), 1)
    assert not verdict.passed
    return verdict.headline


@pytest.mark.full
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x: classify(x.mT), "With the images transposed before `classify` gets them, 98."),
        (lambda x: classify(1 - x), "as if ink and paper were exchanged on the way"),
        (lambda x: classify(x.flip(-1)), "With the images mirrored left to right"),
        (lambda x: classify(x.flip(-2)), "With the images mirrored top to bottom"),
        (lambda x: classify(x.rot90(1, (1, 2))), "With the images turned a quarter to the right"),
        (lambda x: classify(x / 255), "With the pixels multiplied by 255"),
        (lambda x: classify(x * 255), "as if the model got pixel values that are too large"),
        (lambda x: classify((x - 0.1307) / 0.3081), "With the pixels mapped by 0.3081x + 0.1307"),
        (lambda x: classify(x.long()), "as if shades of grey were lost on the way"),
        (lambda x: classify(x.roll(4, 2)), "With the images moved left by 4 pixels"),
        (
            lambda x: classify(x.unflatten(2, (4, 7)).unflatten(1, (4, 7)).permute(0, 3, 2, 1, 4).reshape(x.shape)),
            "With the grid of 7 × 7-pixel patches transposed",
        ),
        (lambda x: classify(x * (torch.arange(28) < 14)[:, None]), "where the lower half of each image is left empty"),
        (lambda x: classify(F.interpolate(F.avg_pool2d(x[:, None], 4), scale_factor=4)[:, 0]), "block of 4 × 4 pixels"),
        (changed(without_positions), "as without positions"),
        (changed(another_head), "Was its last layer trained?"),
        (lambda x: F.pad(classify(x[:256]), (0, 0, 0, len(x) - len(x[:256]))), "rows 256 to 899 of the result are all"),
        (lambda x: classify(x) * (torch.arange(len(x)) % 8 > 0)[:, None], "such as rows 0, 8 and 16, are all the same"),
        (of_two_halves, ": of the first 500 digits 98."),
        (lambda x: classify(x).flip(0), "(that of digit 0 is row 899)"),
        (mirrored_if(900), ", but 12 of the first 12 are when they come alone, and "),
        (mirrored_if(900, 1), "Without the others, 60 of the first 60 are read right; among them, "),
        (lambda x: classify(x)[:, [0, 1, 2, 3, 9, 5, 6, 7, 8, 4]], ": a 4 is called a 9 and a 9 a 4, so the logits"),
        (lambda x: F.pad(classify(x)[:, 1:], (0, 1), value=-99.0), ": a 1 is called a 0, so the logits"),
        (lambda x: classify(x) - 99 * F.one_hot(torch.tensor(8), 10), ": no digit is called an 8; of the other digits"),
        (lambda x: classify(x).sort(descending=True).values, "each row of the result is sorted, from the largest"),
        (nearest(600), "of the first 300 of them 100.0 %: was it trained on a part of them only?"),
        (nearest(9000), "100.0 % are read right, moved and paler as the check's are 9"),
        (lambda x: classify(x) - torch.tensor([0, 0, 0, 0, 0, 7, 0, 0, 0, 0]), "hardly more than of the check's"),
    ],
)
def test_what_the_results_or_other_images_show_is_said(answer, said):
    assert said in (headline := told(answer)), headline


def test_only_what_is_as_often_right_as_by_guessing_is_called_so():
    """And training is asked about only where the model is as unsure as one that has had none."""
    torch.manual_seed(0)
    model = ViT().eval()
    assert told(lambda x: model(x[:, None]).detach()).endswith("as this model trained, and to the end?")
    as_often = told(lambda x: 9 * F.one_hot((1e5 * x.amax((1, 2))).long() % 10, 10))
    assert "about as many as by guessing" in as_often and "trained" not in as_often
    for answer in (lambda x: classify(x.mT), lambda x: classify(x).flip(0), lambda x: classify(1 - x.mT)):
        assert "guessing" not in told(answer) and "trained" not in told(answer)


def test_a_digit_alone_without_its_batch_axis_costs_the_line_about_the_shape():
    verdict = judge(CLASSIFY, lambda request: probe.answer(request, lambda x: classify(x).squeeze(0)), 1)
    assert verdict.headline == "a result has shape (10,), should be (1, 10)"
    assert verdict.score == pytest.approx(0.9), verdict.text()
    text = judge(CLASSIFY, lambda request: probe.answer(request, lambda x: classify(x).squeeze(0)[..., :9]), 1).text()
    assert "no logits of ten classes for every digit" in text
    text = judge(CLASSIFY, lambda r: probe.answer(r, lambda x: classify(x)[:, : 9 + (len(x) > 1)]), 1).text()
    assert "no logits of ten classes for a digit alone" in text


def test_what_is_random_is_not_put_down_to_a_condition():
    told_of_it = told(lambda x: classify(F.dropout(x, 0.5)))
    assert told_of_it == "called again and again, it gives different results: it draws random numbers (digit 0 alone)"


@pytest.mark.full
def test_the_draw_is_not_a_matter_of_luck() -> None:
    """The model that comes with the course reads so well that no draw costs it a point."""
    verdicts = [judge(CLASSIFY, lambda request: probe.answer(request, classify), seed) for seed in range(12)]
    assert {verdict.score for verdict in verdicts} == {1.0}

"""The judge's digits: nobody else's, sent without their labels, and the points follow from what is read right."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from setuptools import find_packages

from autograder import probe
from autograder.exercises import data, find
from autograder.judge import judge
from headroom.data import digits
from headroom.data.digits import content_sha256
from tests.answers.right_vit_4_classify import classify

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


@pytest.mark.full
def test_the_draw_is_not_a_matter_of_luck() -> None:
    """The model that comes with the course reads so well that no draw costs it a point."""
    verdicts = [judge(CLASSIFY, lambda request: probe.answer(request, classify), seed) for seed in range(12)]
    assert {verdict.score for verdict in verdicts} == {1.0}

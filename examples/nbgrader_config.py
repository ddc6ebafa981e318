# ruff: noqa: F821
"""Plugs the grader into nbgrader for this course; docs/another-course.md says how the course is used."""

from pathlib import Path

from autograder.pipeline.configuration import configure

configure(c, Path(__file__).parent)
c.CourseDirectory.course_id = "examples"

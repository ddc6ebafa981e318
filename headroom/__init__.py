"""Headroom: learn the Transformer by building it. What the course's notebooks import."""

"""Accuracy; the metric is in the module of the same name."""

"""Macro F1; the metric is in the module of the same name."""

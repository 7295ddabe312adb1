"""Metrics, one self-contained folder each, which ``evaluate.load`` reads from anywhere.

A folder's module holds a pure function of the folder's name, which is what jfinteb runs, and the
``evaluate.Metric`` that calls it:

    from jfinteb.eval.metrics.ndcg_at_k.ndcg_at_k import ndcg_at_k
"""

"""From noisy timings to rules with evidence: plan, measure, judge, fit, patch, report.

Everything but `cuda` and `worker` works without torch and without a GPU.
"""

"""Classifies trials by the PyPI package MLRsearch: JSON lines in, JSON lines out.

In:  {"goal": {...}, "min": f, "max": f, "trials": [[load, duration_s, loss], ...]}
Out: {"lower": load or null, "upper": load or null, "loss": f or null}
With {"capacity": f} instead of trials it runs a whole search against a hard limit, and adds "spent_s".
"""
import json
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal
from MLRsearch.target_spec import TargetSpec
from MLRsearch.target_stat import TargetStat


def bounds(case):
    goal = case["goal"]
    target = TargetSpec(
        loss_ratio=goal["loss_ratio"],
        exceed_ratio=goal["exceed_ratio"],
        discrete_width=None,
        trial_duration=goal["trial_s"],
        duration_sum=goal["duration_sum_s"],
        expansion_coefficient=2,
        fail_fast=False,
        preceding=None,
    )
    stats = {}
    for load, duration, loss in case["trials"]:
        # A million queries carry the ratio exactly.
        result = MeasurementResult(
            intended_duration=duration,
            intended_load=load,
            offered_count=1_000_000,
            loss_count=round(loss * 1_000_000),
        )
        stats.setdefault(load, TargetStat(target)).add(result)
    lower, upper = None, None
    for load in sorted(stats):
        optimistic, pessimistic = stats[load].estimates()
        if optimistic != pessimistic:
            continue
        if not optimistic:
            upper = load
            break
        lower = load
    loss = None if lower is None else stats[lower].pessimistic_loss_ratio
    return {"lower": lower, "upper": upper, "loss": loss}


class HardLimit(AbstractMeasurer):
    def __init__(self, capacity):
        self.capacity, self.spent = capacity, 0.0

    def measure(self, intended_duration, intended_load):
        self.spent += intended_duration
        sent = round(intended_load * intended_duration)
        lost = round(sent * max(0.0, 1.0 - self.capacity / intended_load))
        return MeasurementResult(intended_duration, intended_load, offered_count=sent, loss_count=lost)


def search(case):
    goal = case["goal"]
    config = Config()
    config.goals = [
        SearchGoal(
            loss_ratio=goal["loss_ratio"],
            exceed_ratio=goal["exceed_ratio"],
            relative_width=goal["width"],
            initial_trial_duration=goal["initial_s"],
            final_trial_duration=goal["trial_s"],
            duration_sum=goal["duration_sum_s"],
            preceding_targets=goal["preceding"],
            expansion_coefficient=2,
            fail_fast=False,
        )
    ]
    config.min_load, config.max_load = case["min"], case["max"]
    config.search_duration_max, config.warmup_duration = 10_000.0, None
    measurer = HardLimit(case["capacity"])
    (result,) = MultipleLossRatioSearch(config=config).search(measurer, debug=lambda _: None).values()
    lower, upper = result.relevant_lower_bound, result.relevant_upper_bound
    return {
        "lower": float(lower) if lower else None,
        "upper": float(upper) if upper else None,
        "loss": None,
        "spent_s": measurer.spent,
    }


for line in sys.stdin:
    case = json.loads(line)
    print(json.dumps(search(case) if case.get("capacity") else bounds(case)))

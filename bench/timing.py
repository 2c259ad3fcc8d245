"""How a row is timed: timeit's loop around the call, every contender in turn, nothing subtracted.

A sample is as many calls as take a few milliseconds. In every round each contender gives one sample, in an order that
rotates, so that drift affects all of them alike. The result is the minimum of the samples, and the quartiles.
"""
import statistics
import time
import timeit


class Plan:
    """How long to measure."""

    def __init__(self, quick):
        self.quick = quick
        self.rounds = 9 if quick else 31
        self.sample = 0.001 if quick else 0.004  # seconds
        self.rounds_slow = 3 if quick else 9  # if one call takes longer than a sample


def call(function, arguments):
    """Call with positional arguments (a list) or keyword arguments (a dict)."""
    return function(**arguments) if isinstance(arguments, dict) else function(*arguments)


def timer(function, arguments, before=None):
    """A timeit.Timer whose function and arguments, a list or a dict, are local to its loop. `before` runs before each sample."""
    keywords = isinstance(arguments, dict)
    names = [f"a{i}" for i in range(len(arguments))]
    written = [f"{keyword}={name}" for keyword, name in zip(arguments, names)] if keywords else names
    setup = "; ".join([f"{name} = _{name}" for name in names] + ["f = _f"] + ["_before()"] * (before is not None))
    given = {f"_{name}": value for name, value in zip(names, arguments.values() if keywords else arguments)}
    return timeit.Timer(f"f({', '.join(written)})", setup, globals={**given, "_f": function, "_before": before})


def loops_for(clock, seconds):
    """The number of calls that take about `seconds`; counting them is the warm-up."""
    loops = 1
    while True:
        took = min(clock.timeit(loops), clock.timeit(loops))  # twice: the first call may do more work
        if took >= seconds / 4 or loops >= 1 << 24:
            return max(1, round(loops * seconds / max(took, 1e-9)))
        loops *= 4


def summary(samples):
    """Nanoseconds: the minimum and the quartiles; the spread is the median in percent above the minimum."""
    low, middle, high = statistics.quantiles(samples, n=4) if len(samples) > 1 else samples * 3
    least = min(samples)
    return {"ns": least, "p25": low, "median": middle, "p75": high, "rounds": len(samples),
            "spread": round(100 * (middle / least - 1), 1) if least else 0.0}


def compare(contenders, plan, before=None):
    """{name: (function, arguments)} -> {name: summary}. The arguments are a list, or a dict of keyword arguments."""
    timers = {name: timer(*contender, before) for name, contender in contenders.items()}
    loops = {name: loops_for(clock, plan.sample) for name, clock in timers.items()}
    rounds = plan.rounds_slow if min(loops.values(), default=1) == 1 else plan.rounds
    samples = {name: [] for name in timers}
    names = list(timers)
    for turn in range(rounds):
        for name in names[turn % len(names):] + names[: turn % len(names)]:
            samples[name].append(timers[name].timeit(loops[name]) / loops[name] * 1e9)
    return {name: summary(values) for name, values in samples.items()}


def wall(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start

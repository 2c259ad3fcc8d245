"""Random operations over everything that a user can call, for as long as one likes.

    soak.py [--minutes M] [--seed S] [--steps N] [--only NAME]...

The operations come in rounds, each in a process of its own with a seed that is printed; `--seed S --steps N` replays a round that
failed. A round ends with everything released: no tensor may be alive, and the memory of the process may not have grown with the
number of operations. The second is a slope: the checkpoints of a round, each taken with nothing held, must not rise both from
its second quarter to the third and from there to the last. A cache that fills up ends; a leak goes on. On a loaded machine a
round may be too short to see the end, so a round in which memory grew goes on, up to four times as long.
"""

import argparse
import os
import re
import subprocess
import sys
import time

ROUND = 60  # seconds
CHECKPOINTS = 16  # in a round
EXTENSIONS = 3  # of a round in which memory grew, each as long as the round
BYTES = 40  # that an operation may lose on average; fragmentation is less, a lost tensor is more


def growth(checkpoints):
    """The bytes that each operation lost in the second half of the round, or in its middle if that is less. The quarters of a
    round are those of its operations, because frameworks compile in the first ones, which can take most of the time."""
    total, means = checkpoints[-1][0], []
    for i in (1, 2, 3):
        quarter = [point for point in checkpoints if i * total < 4 * point[0] <= (i + 1) * total]
        if quarter:
            means.append([sum(column) / len(quarter) for column in zip(*quarter)])
    return max(0, min(((late[1] - early[1]) / (late[0] - early[0]) for early, late in zip(means, means[1:])), default=0))


def work_until(world, operations, is_over, seconds, done, checkpoints):
    """Random operations until it is over, with checkpoints; the number of operations in all."""
    from world import resident

    functions, weights = zip(*operations)
    due = said = time.monotonic()
    while not is_over(done):
        function = world.random.choices(functions, weights)[0]
        try:
            function(world)
        except BaseException:
            print(f"failed: {function.__name__}, operation {done + 1} of seed {world.seed}", flush=True)
            raise
        done += 1
        now = time.monotonic()
        if now >= due:
            # What lives on is ended without a random number, so that a replay by steps does the same operations.
            held, world.pool = world.pool, []
            del held
            checkpoints.append((done, resident()))
            due = now + seconds / CHECKPOINTS
        if now >= said + 5:
            print(f"  seed {world.seed}: {done:,} operations, {checkpoints[-1][1] / 2**20:.0f} MiB", flush=True)
            said = now
    return done


def run_round(seed, seconds, steps, only):
    """A round in this process. Ends with an exception, or prints its last line."""
    from operations import OPERATIONS
    from world import World

    world = World(seed)
    chosen = [(function, weight) for function, weight, needs in OPERATIONS
              if (not only or function.__name__ in only) and all(getattr(world, name) for name in needs)]
    done, checkpoints, lost = 0, [], BYTES + 1
    for _ in range(1 if steps else 1 + EXTENSIONS):
        end = time.monotonic() + seconds
        is_over = (lambda done: done >= steps) if steps else (lambda _, end=end: time.monotonic() >= end)
        done = work_until(world, chosen, is_over, seconds, done, checkpoints)
        lost = growth(checkpoints) if len(checkpoints) >= 8 else 0
        if lost <= BYTES:
            break
    world.clear()
    if lost > BYTES:
        raise SystemExit(f"memory grows: {lost:.0f} bytes with each operation: {checkpoints}")
    print(f"  seed {seed}: {done:,} operations, {lost:.1f} bytes lost with each", flush=True)


def start_round(seed, seconds, without, options):
    """The same in a process of its own: its operations, or None if it failed."""
    command = [sys.executable, "-X", "faulthandler", __file__, "--round", str(seconds), "--seed", str(seed)]
    command += [word for name in options.only for word in ("--only", name)]
    if options.steps:
        command += ["--steps", str(options.steps)]
    env = {**os.environ, "TENON_DEBUG": "1", "TENON_WITHOUT": without, "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    output = []
    for line in process.stdout:
        output.append(line)
        if line.startswith("  seed "):
            print(line, end="", flush=True)
    status = process.wait()
    text = "".join(output)
    # What TENON_DEBUG=1 reports at the end of the process.
    alive = re.findall(r"^tenon: \d+ tensors? still alive at exit$", text, re.M)
    if status == 0 and not alive:
        return int(re.findall(r"([\d,]+) operations", text)[-1].replace(",", ""))
    print(text[-6000:])
    print(f"the round ended with status {status}" + "".join(f"; {line}" for line in alive))
    print(f"replay: {sys.executable} {os.path.relpath(__file__)} --seed {seed}", *(f"--only {name}" for name in options.only))
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--steps", type=int, default=0, help="end the round after so many operations")
    parser.add_argument("--only", action="append", default=[], help="the name of an operation")
    parser.add_argument("--round", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.round is not None:
        run_round(options.seed, options.round, options.steps, options.only)
        return
    seed = options.seed if options.seed is not None else int(time.time()) % 10**6
    end = time.monotonic() + 60 * options.minutes
    rounds = operations = 0
    while rounds == 0 or (time.monotonic() < end - 10 and options.seed is None):
        left = max(10.0, end - time.monotonic())
        # JAX is slow, so that it takes part in every third round only; a seed says whether it does.
        without = f"{os.environ.get('TENON_WITHOUT', '')} {'jax' * (seed % 3 > 0)}".strip()
        print(f"round {rounds + 1}, seed {seed}, {left / 60:.0f} minutes left" + f", without {without}" * bool(without), flush=True)
        done = start_round(seed, min(ROUND, left), without, options)
        if done is None:
            raise SystemExit(1)
        rounds, operations, seed = rounds + 1, operations + done, seed + 1
    print(f"{rounds} rounds, {operations:,} operations: nothing was lost")


if __name__ == "__main__":
    main()

"""The path of a new user from the wheels in dist/ alone (`tools/wheels user`): install one, create a project, build and test it,
make its wheel, install that in a second environment and call it."""
import os
import shutil

CALL = """
import mine, numpy as np
assert mine.saxpy(2.0, np.arange(4, dtype="f4"), np.ones(4, "f4")).tolist() == [1, 3, 5, 7]
"""


def follow(wheels, name, python, wheel):
    work = wheels.BUILD / "user" / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    first = wheels.environment(python, f"user-{name}", wheel, "numpy", "pip", "build")
    wheels.run(first, "-m", "tenon", "new", "mine", cwd=work)
    project = work / "mine"
    wheels.run(first, "-m", "pip", "install", "-e", ".[test]", cwd=project)
    wheels.run(first, "-m", "pytest", "-q", cwd=project)
    wheels.run(first, "-m", "build", cwd=project)
    (built,) = (project / "dist").glob("*.whl")
    second = wheels.environment(python, f"user-{name}-second", built, "numpy")
    wheels.run(second, "-c", CALL, cwd=work)
    print(f"ok {wheel.name}: a new project with Python {name}", flush=True)


def follow_all(wheels):
    """Follow the path with every interpreter that a wheel is for. Returns 0 or 1."""
    # Until libtenon is published, pip and uv find it here; docs/start.md tells the user so.
    for tool, separator in (("PIP", " "), ("UV", ",")):
        known = os.environ.get(f"{tool}_FIND_LINKS")
        os.environ[f"{tool}_FIND_LINKS"] = separator.join(filter(None, [known, str(wheels.DIST)]))
    failures, followed = 0, 0
    for name, python in wheels.pythons().items():
        target = wheels.target_of(name)
        wheel = target and wheels.DIST / f"libtenon-{wheels.version()}-{target.tag}.whl"
        if not wheel or not wheel.exists():
            continue
        followed += 1
        try:
            follow(wheels, name, python, wheel)
        except RuntimeError as error:
            failures += 1
            print(f"FAILED {wheel.name}: {error}", flush=True)
    if not followed:
        wheels.skip("there is no wheel for an installed Python in dist/")
    return min(failures, 1)

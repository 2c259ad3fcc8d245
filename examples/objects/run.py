"""Builds each library of this folder, and uses it.

python run.py [FOLDER]      compiles into the folder
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import tenon

HERE = pathlib.Path(__file__).resolve().parent


def load(name, folder):
    """Compiles a file by the command in its first lines."""
    source = HERE / name
    compiler, command, library = re.search(r" (cc|c\+\+) (.* -o (\S+).*?)(?: \*/)?$", source.read_text(), re.M).groups()
    compiler = os.environ.get("CC" if compiler == "cc" else "CXX", compiler)
    flags = f"-I{pathlib.Path(tenon.__file__).parent / 'include'}"
    words = command.replace("$(python -m tenon cflags)", "FLAGS").split()
    words = [flags if word == "FLAGS" else str(source) if word == source.name else word for word in words]
    subprocess.run([compiler, *words], cwd=folder, check=True)
    return tenon.load(folder / library)


def trees(kdtree):
    points = np.random.default_rng(0).random((10_000, 3), "float32")
    with kdtree.KDTree(points) as tree:
        found = tree.query(points[:5] + np.float32(1e-4), k=2)
        print("nearest rows:", found.rows[:, 0], "at most", found.distance.max().round(2), "away")
        shared = tree.points()
        print("the tree has the memory of the points:", np.shares_memory(shared, points))
    try:
        tree.query(points[:1])
    except ValueError as error:
        print(error)
    del tree, points
    print("an array of the tree's memory outlives the tree:", shared.shape)


def words(module):
    text = module.Words("to be or not to be")
    print(repr(text), len(text), text[3], text[-1], list(text))


def files(mapped, folder):
    np.arange(6, dtype="float32").tofile(folder / "numbers")
    matrix = mapped.load(str(folder / "numbers"), 3)
    (folder / "numbers").unlink()
    matrix[0, 0] = 7
    print("mapped:", matrix.tolist())
    try:
        mapped.load(str(folder / "numbers"), 3)
    except ValueError as error:
        print(str(error).replace(str(folder), "…"))


def views(module):
    matrix = np.zeros((3, 3))
    module.diagonal(matrix)[:] = 1
    print("written through the diagonal:", matrix.tolist() == np.eye(3).tolist())
    print("trimmed:", module.trim(np.array([0, 0, 1, 0, 2, 0], "float32")))


def shapes(module):
    print("resampled:", module.resample(np.array([0, 1, 4], "float32"), 2.0))


def main(folder):
    trees(load("kdtree.c", folder))
    trees(load("kdtree.cpp", folder))
    words(load("words.c", folder))
    files(load("mapped.c", folder), folder)
    views(load("views.c", folder))
    shapes(load("resample.c", folder))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(pathlib.Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(pathlib.Path(made))

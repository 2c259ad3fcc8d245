"""The root of the repository is not on the path of any test, though `python -m pytest` puts it there: if torch is not
installed, `import torch` would succeed with the folder torch/."""

import os
import sys

ROOT = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != ROOT]

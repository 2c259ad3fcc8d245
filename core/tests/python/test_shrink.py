"""The random cases once more, driven by hypothesis, which shrinks what fails to something small."""

import pytest
import test_copy
import test_dlpack
import test_layout
import test_lifetime
import test_names
import test_packed
import test_specs
import test_views

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not installed: failing cases are not shrunk")

CASES = [
    test_views.chain_case, test_packed.packed_case, test_layout.layout_case, test_layout.overlap_case,
    test_layout.interleaved_case, test_layout.huge_view_case, test_copy.copy_case, test_copy.shared_case,
    test_lifetime.release_case, test_dlpack.export_case, test_dlpack.import_case, test_names.name_text_case,
    test_specs.spec_case, test_specs.spec_text_case,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.__module__}.{case.__name__}")
def test_shrink(case):
    @hypothesis.settings(max_examples=60, derandomize=True, deadline=None, database=None,
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(hypothesis.strategies.randoms(use_true_random=False))
    def run(rng):
        case(rng)
    run()

import pytest

from headrace.schemas.columns import added_columns

FORMS = [
    ({}, False, ("embedding",)),
    ({"output__dtype": "int8"}, False, ("embedding", "embedding_scale")),
    ({"output__dtype": "binary"}, False, ("embedding",)),
    ({"model__task": "classify"}, False, ("label", "score")),
    ({"model__task": "classify", "model__top_k": 1}, False, ("label", "score")),
    ({"model__task": "classify", "model__top_k": 2}, False, ("label", "score", "top")),
    ({"model__task": "classify"}, True, ("labels",)),
    ({"model__task": "classify", "model__top_k": 1}, True, ("labels",)),
    ({"model__task": "classify", "model__top_k": 2}, True, ("labels",)),
    ({}, True, ("embedding",)),  # an embedding of a classifier's encoder
]


@pytest.mark.parametrize(("changes", "multi_label", "results"), FORMS, ids=str)
@pytest.mark.parametrize("prefix", ["", "b_", "größe "])
def test_everything_that_a_job_adds_carries_its_prefix(
    make_job, changes, multi_label, results, prefix
):
    added = added_columns(make_job(**changes, output__prefix=prefix), multi_label=multi_label)
    assert added.results == tuple(prefix + name for name in results)
    assert added.error == f"{prefix}headrace_error"
    assert added.names == (*added.results, added.error)

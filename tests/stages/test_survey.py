import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.schemas.errors import JobError
from headrace.stages.survey import survey


@pytest.fixture
def look(tmp_path, make_job, tiny_model):
    folder = tmp_path / "in"
    folder.mkdir()
    for name, rows in (("a", 5), ("b", 3)):
        pq.write_table(pa.table({"text": ["one"] * rows}), folder / f"{name}.parquet")

    def make(**changes):
        known = {"input__path": str(folder), "model__path": str(tiny_model)}
        return survey(make_job(**known | changes))

    return make


def test_a_survey_knows_input_and_model(look, tmp_path):
    found = look()
    assert found.base == tmp_path / "in"
    assert [(file.path, file.rows) for file in found.files] == [("a.parquet", 5), ("b.parquet", 3)]
    assert found.schema == pa.schema([("text", pa.string())])
    assert found.model.max_length == 16
    assert found.job_fields["model.digest"]


def test_a_survey_writes_nothing(look, tmp_path):
    look(output__path=str(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_it_is_cut_as_the_job_says(look):
    assert [shard.rows for shard in look(shards__target_rows=4).cut()] == [4, 4]
    assert [shard.rows for shard in look(shards__target_rows=4, input__limit=6).cut()] == [4, 2]


def test_ids_follow_both_fingerprints(look):
    ids = [look(**changes).cut()[0].id for changes in ({}, {"model__max_length": 7})]
    assert ids[0] != ids[1]
    assert look(compute__max_attempts=7).cut()[0].id == ids[0]


def test_both_fingerprints_are_those_of_the_parts(look):
    one, two = look(), look(model__max_length=7)
    assert one.job_fingerprint != two.job_fingerprint
    assert one.input_fingerprint == two.input_fingerprint


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"input__path": "/nothing"}, r"input\.path"),
        ({"input__text": "txt"}, r"input\.text"),
        ({"model__path": "/nothing"}, r"model\.path"),
        ({"output__columns": ["txt"]}, r"output\.columns"),
        ({"preprocess": [{"template": "{txt}"}]}, r"preprocess: template: .*did you mean 'text'"),
        ({"model__prompt": "query"}, r"model\.prompt"),
    ],
)
def test_what_can_not_run_is_refused(look, changes, words):
    with pytest.raises(JobError, match=words):
        look(**changes)


def test_the_task_s_options_are_checked_against_the_model(look):
    with pytest.raises(JobError, match=r"model\.threshold: expected a multi-label classifier"):
        look(model__task="classify", model__threshold=0.5)


def test_the_model_says_which_names_are_taken(look, write_model, tmp_path):
    pq.write_table(pa.table({"text": ["one"], "labels": ["x"]}), tmp_path / "labels.parquet")
    folder = write_model(tmp_path / "multi", problem_type="multi_label_classification")
    known = {"input__path": str(tmp_path / "labels.parquet"), "model__task": "classify"}
    look(**known)
    with pytest.raises(JobError, match=r"no input column named 'labels'"):
        look(**known, model__path=str(folder))


def test_more_classes_than_there_are_can_not_be_asked_for(look, write_model, tmp_path):
    folder = write_model(tmp_path / "two", id2label={"0": "no", "1": "yes"})
    with pytest.raises(JobError, match=r"model\.top_k: expected at most the model's 2 classes"):
        look(model__path=str(folder), model__task="classify", model__top_k=3)
    look(model__path=str(folder), model__task="classify", model__top_k=2)


def test_a_model_whose_digest_is_not_the_asked_for_one_is_refused(look):
    found = look()
    digest = found.job_fields["model.digest"]
    asked = look(model__sha256=digest)
    assert asked.job_fingerprint == found.job_fingerprint  # the same model, asked for or not
    with pytest.raises(JobError, match=f"model.sha256: expected {'0' * 64}, got {digest} for"):
        look(model__sha256="0" * 64)

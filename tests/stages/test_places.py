import os
from pathlib import Path

import pytest

from headrace.schemas.errors import JobError
from headrace.stages.places import is_local, local_path, place_of


def test_local_paths_are_absolute_and_keep_links(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert local_path("link/x", "k") == tmp_path / "link/x"
    assert local_path("a/../b", "k") == tmp_path / "b"
    assert local_path("~/x", "k") == tmp_path / "home/x"
    assert local_path("/x", "k") == Path("/x")


@pytest.mark.parametrize("url", ["s3://bucket/x", "gs://b", "https://host/x", "file:///x"])
def test_urls_are_refused_with_their_key(url):
    with pytest.raises(JobError, match=r"some\.key: expected a path on this machine.*"):
        local_path(url, "some.key")


def test_a_url_becomes_a_place_on_its_store(monkeypatch):
    monkeypatch.setenv("HERE", "value")
    place = place_of("memory://folder/below/", "output.path", {"skip_instance_cache": True})
    assert not is_local(place)
    assert str(place / "x") == "memory://folder/below/x" or (place / "x").path == "/folder/below/x"
    assert is_local(place_of("file:///x", "output.path", {}))
    options = {"key": "${HERE}-${HERE}", "deep": {"er": "${HERE}"}, "n": 3}
    assert place_of("memory://x", "output.path", options).storage_options == {
        "use_listings_cache": False,
        "key": "value-value",
        "deep": {"er": "value"},
        "n": 3,
    }


def test_a_variable_that_is_not_set_is_named_and_its_neighbours_are_not(monkeypatch):
    monkeypatch.delenv("NOT_SET", raising=False)
    options = {"secret": "hidden", "key": "${NOT_SET}"}
    with pytest.raises(JobError, match=r"input\.storage_options\.key: .* NOT_SET") as caught:
        place_of("memory://x", "input.path", options)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("url", ["nowhere://x/y", "nowhere://user:hidden@x/y"])
def test_a_scheme_that_nobody_knows_is_refused(url):
    with pytest.raises(
        JobError, match=r"output\.path: expected a path, or a URL .* nowhere://…"
    ) as caught:
        place_of(url, "output.path", {})
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a" * 300, "File name too long"),
        ("a\0b", "null"),
        ("~nobody-by-this-name/x", "home directory"),
        ("a\ud800", "surrogates"),
        (os.fsdecode(b"caf\xe9"), "surrogates"),
    ],
)
def test_what_can_be_no_path_is_refused_with_its_key(text, why):
    with pytest.raises(
        JobError, match=rf"output\.path: expected a path on this machine.*{why}"
    ) as it:
        local_path(text, "output.path")
    assert len(str(it.value)) < 300

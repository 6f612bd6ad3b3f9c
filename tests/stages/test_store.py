import errno
import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from headrace.schemas import layout
from headrace.schemas.errors import DamagedError, OutputError
from headrace.schemas.report import Rows
from headrace.stages.store import (
    as_json,
    canonical,
    clean_tmp,
    create,
    digest,
    file_sha256,
    names_in,
    own_tmp,
    publish,
    read_json,
    replace,
    writing,
)


@pytest.fixture
def tmp(tmp_path):
    return own_tmp(tmp_path)


def test_create_is_exclusive(tmp_path, tmp):
    assert create(tmp_path / "deep/er/a", b"first", tmp)
    assert not create(tmp_path / "deep/er/a", b"second", tmp)
    assert (tmp_path / "deep/er/a").read_bytes() == b"first"
    assert list(tmp.iterdir()) == []


def test_publish_moves_a_file_or_drops_it(tmp_path, tmp):
    for content, created in ((b"first", True), (b"second", False)):
        file = tmp / "file"
        file.write_bytes(content)
        assert publish(file, tmp_path / "a") is created
        assert not file.exists()
    assert (tmp_path / "a").read_bytes() == b"first"


def test_replace_takes_the_place_of_what_was_there(tmp_path, tmp):
    for content in (b"first", b"second"):
        replace(tmp_path / "deep/a", content, tmp)
        assert (tmp_path / "deep/a").read_bytes() == content
    assert list(tmp.iterdir()) == []


def test_a_reader_never_sees_half_a_file(tmp_path, tmp):
    target, stop, seen = tmp_path / "a.json", threading.Event(), []
    texts = [json.dumps([number] * 20_000).encode() for number in range(2)]
    replace(target, texts[0], tmp)

    def read():
        while not stop.is_set():
            seen.append(target.read_bytes() in texts)

    reader = threading.Thread(target=read)
    reader.start()
    for at in range(60):
        replace(target, texts[at % 2], tmp)
    stop.set()
    reader.join()
    assert len(seen) > 1
    assert all(seen)


def test_temporary_files_have_a_folder_for_each_process(tmp_path):
    folder = own_tmp(tmp_path)
    assert folder == tmp_path / layout.TMP / f"{socket.gethostname()}-{os.getpid()}"
    assert folder.is_dir()
    assert own_tmp(tmp_path) == folder


def test_cleaning_keeps_what_living_processes_and_other_hosts_hold(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        host = socket.gethostname()
        names = {
            "own": f"{host}-{os.getpid()}",
            "living": f"{host}-{process.pid}",
            "elsewhere": f"not-{host}-{process.pid}",
            "odd": "readme",
        }
        for name in names.values():
            (tmp_path / layout.TMP / name).mkdir(parents=True)
            (tmp_path / layout.TMP / name / "file").touch()
        clean_tmp(tmp_path)
        assert list(names_in(tmp_path / layout.TMP)) == sorted(
            names[key] for key in ("living", "elsewhere", "odd")
        )
        assert (tmp_path / layout.TMP / names["living"] / "file").exists()
        process.communicate(b"\n")
    clean_tmp(tmp_path)  # it is dead now, and reaped
    assert names["living"] not in list(names_in(tmp_path / layout.TMP))
    assert names["elsewhere"] in list(names_in(tmp_path / layout.TMP))


def test_cleaning_an_output_without_temporary_files_does_nothing(tmp_path):
    clean_tmp(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_values_survive_json(tmp_path):
    rows = Rows(in_=3, good=1, null=1, errors=1)
    (tmp_path / "a").write_bytes(as_json(rows))
    assert (tmp_path / "a").read_bytes().endswith(b"}\n")
    assert read_json(tmp_path / "a", Rows) == rows


@pytest.mark.parametrize("content", [b"", b"{", b'{"in": "many"}', b'{"more": 1}', b"\xff", b"[]"])
def test_another_content_is_damage(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DamagedError, match=r"a\.json: expected a Rows"):
        read_json(tmp_path / "a.json", Rows)


def test_equal_data_has_one_text_and_one_digest():
    assert canonical({"b": [1, None, True], "a": "ü"}) == '{"a":"ü","b":[1,null,true]}'.encode()
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest(["a", "bc"]) != digest(["ab", "c"])
    assert len(digest(None)) == 64


def test_a_file_s_digest_is_sha256(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert file_sha256(tmp_path / "a").startswith("ba7816bf8f01cfea414140de5dae2223")


def test_names_come_sorted_and_none_without_a_folder(tmp_path):
    for name in ("b", "a", ".c"):
        (tmp_path / name).touch()
    assert list(names_in(tmp_path)) == [".c", "a", "b"]
    assert list(names_in(tmp_path / "none")) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
@pytest.mark.parametrize("refusals_only", [False, True])
def test_a_disk_that_refuses_is_named_with_its_reason(tmp_path, code, refusals_only):
    said = rf"output\.path: expected to write in {tmp_path}, got: {os.strerror(code)}\. Mend"
    with (
        pytest.raises(OutputError, match=said),
        writing(tmp_path, refusals_only=refusals_only),
    ):
        raise OSError(code, "as the disk says")


def test_what_may_be_tried_again_passes_where_it_is_asked_for(tmp_path):
    with pytest.raises(OSError, match="busy"), writing(tmp_path, refusals_only=True):
        raise OSError(errno.EBUSY, "busy")
    with pytest.raises(OutputError, match=os.strerror(errno.EBUSY)), writing(tmp_path):
        raise OSError(errno.EBUSY, "busy")
    with pytest.raises(OutputError, match="no number"), writing(tmp_path):
        raise OSError("no number")


def test_a_file_that_could_not_be_written_whole_is_removed(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        create(tmp_path / "file", b"data", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_value_is_said_in_one_line_without_its_content(tmp_path):
    from headrace.schemas.plan import PlanHeader

    (tmp_path / "plan.json").write_text('{"secret": "of a row"}')
    said = r"plan\.json: expected a PlanHeader as headrace writes it: "
    with pytest.raises(DamagedError, match=said) as caught:
        read_json(tmp_path / "plan.json", PlanHeader)
    assert "of a row" not in str(caught.value)
    assert "\n" not in str(caught.value)

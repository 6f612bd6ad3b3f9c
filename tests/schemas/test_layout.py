from headrace.schemas import layout


def test_a_part_is_named_by_place_and_content():
    assert layout.part_name(42, "1f3a9c07") == "part-0000042-1f3a9c07.parquet"
    assert layout.part_name(0, "00000000") < layout.part_name(9_999_999, "ffffffff")


def test_everything_but_data_starts_with_an_underscore():
    part = layout.part_name(1, "1f3a9c07")
    paths = [
        layout.SUCCESS,
        layout.PLAN,
        layout.SLICES,
        layout.RUN,
        layout.TMP,
        layout.WORKERS,
        layout.BROKEN,
        layout.report_path(part),
        layout.commit_path(part, "ab"),
        layout.errors_path(part, "ab"),
    ]
    assert all(path.startswith("_") for path in paths)
    assert len(set(paths)) == len(paths)


def test_the_paths_of_a_part_carry_its_name():
    part = layout.part_name(1, "1f3a9c07")
    assert layout.report_path(part) == f"_headrace/reports/{part}.json"
    assert layout.commit_path(part, "ab") == f"_headrace/commits/{part}.ab.json"
    assert layout.errors_path(part, "ab") == f"_headrace/errors/{part}.ab.jsonl"

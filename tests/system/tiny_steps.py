"""Small preprocessing steps that stand in for a user's own; the workers import them by name."""

import narwhals as nw


def clean(frame):
    """Put the title before the text; backwards, and some words are too much for it."""
    frame = refuses_zebras(frame)
    made = nw.concat_str([nw.lit("["), nw.col("title"), nw.lit("] "), nw.col("text")])
    return frame.select("headrace_row", made=made).sort("headrace_row", descending=True)


def refuses_zebras(frame):
    if any("zebra" in (text or "") for text in frame.get_column("text").to_list()):
        raise ValueError("this text is a secret")
    return frame


def fails(frame):
    raise ValueError("this text is a secret")


def drops_rows(frame):
    return frame.head(1)


def gives_numbers(frame):
    return frame.with_columns(nw.col("text").str.len_chars().alias("length"))


not_a_function = 42

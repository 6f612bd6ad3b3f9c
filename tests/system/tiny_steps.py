"""Small preprocessing steps that stand in for a user's own; the workers import them by name."""

import narwhals as nw


def clean(frame):
    """Title in brackets before the text, as one column; some words are too much for it."""
    if any("zebra" in (text or "") for text in frame.get_column("text").to_list()):
        raise ValueError("this text is a secret")
    title = nw.concat_str([nw.lit("["), nw.col("title"), nw.lit("]")])
    both = nw.concat_str([title, nw.col("text")], separator=" ", ignore_nulls=True)
    return frame.select("headrace_row", made=both).sort("headrace_row", descending=True)


def fails(frame):
    raise ValueError("this text is a secret")


def drops_rows(frame):
    return frame.head(1)


def gives_numbers(frame):
    return frame.with_columns(nw.col("text").str.len_chars().alias("length"))


not_a_function = 42

"""A stand-in for cuDF, pylibcudf and CuPy on a CPU, made of pandas, Arrow and `tokenizers`.

The GPU's road for texts is executed with it, not proven. It answers gpu_names.py's names alone.
"""

import math
import operator
from types import SimpleNamespace as Names

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from gpu_names import GPU_NAMES
from tokenizers import Tokenizer, models

TEXT = pd.StringDtype("pyarrow", na_value=math.nan)


def known(name):
    if name not in GPU_NAMES:
        msg = f"{name} is not among the names that the GPU's road may use"
        raise AttributeError(msg)
    return name.rpartition(".")[2]


def bare(value):
    if type(value) in {list, tuple}:
        return type(value)(map(bare, value))
    return value.native if isinstance(value, Guarded) else value


def guarded(value, kind=None):
    if isinstance(value, pd.Series | pd.DataFrame):
        return {pd.Series: Series, pd.DataFrame: DataFrame}[type(value)](value)
    if not callable(value) or kind.endswith("iloc"):
        return Guarded(value, kind) if callable(value) else value
    return lambda *args, **more: guarded(value(*bare(args), **{k: bare(more[k]) for k in more}))


class Guarded:
    """Something of pandas by cuDF's names; what it gives is guarded, too."""

    def __init__(self, native, kind=None, **more):
        native = pd.Series(native, **more) if more else native
        self.__dict__.update(native=native, kind=kind or f"cudf.{type(self).__name__}")

    def __getattr__(self, name):
        return guarded(getattr(self.native, known(f"{self.kind}.{name}")), f"{self.kind}.{name}")

    def __setattr__(self, name, value):
        setattr(self.native, known(f"{self.kind}.{name}"), bare(value))

    def __len__(self):
        return len(self.native)

    def __getitem__(self, key):
        return guarded(self.native[bare(key)])

    def __invert__(self):
        return guarded(~self.native)


for name in ("add", "eq", "ne", "and", "or"):
    both = getattr(operator, f"__{name}__")
    setattr(Guarded, f"__{name}__", lambda a, b, f=both: guarded(f(a.native, bare(b))))
    setattr(Guarded, f"__r{name}__", lambda a, b, f=both: guarded(f(bare(b), a.native)))


class Series(Guarded):
    @classmethod
    def from_arrow(cls, array):
        chunks = pa.chunked_array([array]) if isinstance(array, pa.Array) else array
        return cls(pd.Series(pd.arrays.ArrowStringArray(chunks, dtype=TEXT)))

    from_pylibcudf = classmethod(lambda cls, array: cls(array))  # the tokens' lists

    @property
    def str(self):
        strings = self.native.str
        sizes = pc.binary_length(self.to_arrow()).to_pandas()
        object.__setattr__(strings, "byte_count", lambda: sizes)
        return Guarded(strings, "cudf.Series.str")

    @property
    def list(self):
        counts, leaves = pc.list_value_length(self.native), self.native.flatten()
        lists = Names(len=counts.to_pandas, leaves=leaves.to_pandas())
        return Guarded(lists, "cudf.Series.list")

    def to_arrow(self):
        array = pa.array(self.native)
        return array if isinstance(array, pa.Array) else array.combine_chunks()

    def to_pylibcudf(self):
        array = self.to_arrow()
        width = Names(id=lambda: "INT64" if array.type == pa.large_string() else "INT32")
        _, edges, data = (part and np.frombuffer(part, np.uint8) for part in array.buffers())
        offsets = Names(type=lambda: width, data=lambda: edges)
        found = {"size": len(array), "num_children": min(1, len(array)), "offset": array.offset}
        column = Names(child=lambda at: [offsets][at], data=lambda: data, array=array)
        column.__dict__.update({name: (lambda value=value: value) for name, value in found.items()})
        return column, {}


class DataFrame(Guarded):
    @classmethod
    def from_arrow(cls, table):
        names = table.column_names
        return cls(pd.DataFrame({name: Series.from_arrow(table[name]).native for name in names}))

    from_pylibcudf = from_arrow

    def to_arrow(self):
        return pa.table({name: Series(self.native[name]).to_arrow() for name in self.native})


class Options:
    """Parquet's reader options and their builder: remembers what it is told."""

    def __getattr__(self, name):
        builds = name in {"build", "ignore_missing_columns"}
        known(f"pylibcudf.io.parquet.ParquetReaderOptions{'Builder' * builds}.{name}")
        return lambda *given: self.__dict__.update({f"_{name}": given}) or self


def read_parquet(options):
    told = {name: given[0] for name, given in options.__dict__.items() if given}
    with pq.ParquetFile(told["_builder"][0]) as file:
        groups = told.get("_set_row_groups", [range(file.num_row_groups)])[0]
        table = file.read_row_groups(list(groups))
    if missing := set(told["_set_column_names"]) - set(table.column_names):
        raise ValueError(missing)
    rows = table.select(told["_set_column_names"]).slice(told.get("_set_skip_rows", 0))
    return rows.slice(0, told.get("_set_num_rows"))


def vocabulary_of(column):
    ids = {word: at for at, word in enumerate(column.array.to_pylist())}
    return models.WordPiece(ids, unk_token="[UNK]")


def wordpiece_tokenize(spaced, vocabulary, _):
    tokenizer = Tokenizer(vocabulary)
    tokenizer.normalizer, tokenizer.pre_tokenizer = spaced.normalizer, spaced.split
    texts = tokenizer.encode_batch(spaced.array.to_pylist())
    return pa.array([text.ids for text in texts], pa.list_(pa.int32()))

"""Puts the stand-in for cuDF where the GPU's road imports it from."""

import importlib.machinery
import importlib.util
import sys
import types
from types import SimpleNamespace as Names

import cudf_standin as standin
import numpy as np
import pandas as pd
from tokenizers import normalizers, pre_tokenizers


def module(name, **contents):
    made = types.ModuleType(name)
    made.__spec__ = importlib.machinery.ModuleSpec(name, loader=None)
    made.__dict__.update(contents)
    return made


def concat(frames, **more):
    return standin.guarded(pd.concat([standin.bare(frame) for frame in frames], **more))


def character_normalizer(lower, none):
    assert none.size() == 0
    return normalizers.BertNormalizer(lowercase=lower)


def normalize_characters(column, normalizer):
    split = pre_tokenizers.BertPreTokenizer()
    return Names(array=column.array, normalizer=normalizer, split=split)


def modules():
    """The stand-in's modules, by the names of the real ones."""
    parquet = Names(
        ParquetReaderOptions=Names(builder=lambda source: standin.Options().builder(source)),
        read_parquet=standin.read_parquet,
    )
    wordpiece = Names(
        WordPieceVocabulary=standin.vocabulary_of, wordpiece_tokenize=standin.wordpiece_tokenize
    )
    normalize = Names(
        CharacterNormalizer=character_normalizer, normalize_characters=normalize_characters
    )
    stream = Names(synchronize=lambda: None)
    streams = Names(Stream=Names(ptds=stream, null=stream))
    return [
        module(
            "cudf",
            __version__="26.10.02",
            DataFrame=standin.DataFrame,
            Series=standin.Series,
            concat=concat,
            Index=pd.Index,
        ),
        module(
            "pylibcudf",
            io=Names(parquet=parquet, SourceInfo=list),
            nvtext=Names(wordpiece_tokenize=wordpiece, normalize=normalize),
            TypeId=Names(INT32="INT32", INT64="INT64"),
        ),
        # A copy, since Arrow's memory is read-only and a GPU's is not.
        module("cupy", asarray=np.array, cuda=streams),
    ]


def install(monkeypatch):
    """Let the road import the stand-in."""
    for made in modules():
        monkeypatch.setitem(sys.modules, made.__name__, made)
    assert importlib.util.find_spec("cudf") is not None

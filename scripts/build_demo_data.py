"""Build the demo's data: 20,000 glosses of WordNet 3.0 as one Parquet file.

The input is the database folder of Debian's package wordnet-base. The choice of rows takes no
randomness and the writer no clock, so the same package and the same pyarrow give the same bytes.
WordNet's licence wants its notice on every copy, so the notice is written next to the data.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 20_000
GROUP_ROWS = 2_000
ZSTD_LEVEL = 19
LICENSE_NAME = "WORDNET-LICENSE"
COUNT_FILE = "cntlist.rev"
PARTS = ("noun", "verb", "adj", "adv")
INSTALL_HINT = "install Debian's package wordnet-base (apt-get install wordnet-base)"

# The lexicographer files by number, as the manual page lexnames(5WN) lists them. The table is
# written out because wordnet-base ships that page but not the file it describes.
LEXNAMES = (
    *("adj.all", "adj.pert", "adv.all", "noun.Tops", "noun.act", "noun.animal", "noun.artifact"),
    *("noun.attribute", "noun.body", "noun.cognition", "noun.communication", "noun.event"),
    *("noun.feeling", "noun.food", "noun.group", "noun.location", "noun.motive", "noun.object"),
    *("noun.person", "noun.phenomenon", "noun.plant", "noun.possession", "noun.process"),
    *("noun.quantity", "noun.relation", "noun.shape", "noun.state", "noun.substance", "noun.time"),
    *("verb.body", "verb.change", "verb.cognition", "verb.communication", "verb.competition"),
    *("verb.consumption", "verb.contact", "verb.creation", "verb.emotion", "verb.motion"),
    *("verb.perception", "verb.possession", "verb.social", "verb.stative", "verb.weather"),
    "adj.ppl",
)

# The release's manual pages say "Dec 2006" and name no day, so this is the month's first instant.
RELEASED = datetime(2006, 12, 1, tzinfo=UTC)

SENSE_TYPES = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}
SATELLITE = "s"
SIMILAR_TO = "&"
NOTICE_INDENT = "  "
FIRST_WORD = 4
WORD_FIELDS = 2
POINTER_FIELDS = 4
SHARE_STEP = Decimal("0.000001")
# Adjectives may carry a syntactic marker, as in "galore(ip)"; it is no part of the word.
MARKER = re.compile(r"\((?:a|p|ip)\)")

SCHEMA = pa.schema(
    [
        ("headword", pa.string()),
        ("topic", pa.dictionary(pa.int8(), pa.string())),
        ("text", pa.string()),
        ("synset_offset", pa.int64()),
        ("tag_count", pa.int64()),
        ("frequency_share", pa.decimal128(9, 6)),
        ("released", pa.timestamp("us", tz="UTC")),
        ("synonyms", pa.list_(pa.string())),
    ]
)


class WordNetError(Exception):
    """The WordNet folder cannot be used as it is; the message says what to do."""


class Word(NamedTuple):
    """One lemma of a synset, with the number that tells its senses in one file apart."""

    form: str
    lex_id: int


class Counts(NamedTuple):
    """How often a sense was tagged, and how often its lemma was, in one part of speech."""

    sense: int | None
    lemma: int


@dataclass(frozen=True, slots=True)
class Synset:
    """One line of a data file, less what the demo does not need."""

    part: str
    offset: int
    lex_file: int
    kind: str
    words: tuple[Word, ...]
    similar: tuple[int, ...]
    gloss: str


def plain(form: str) -> str:
    """Return a lemma with its spaces, as a reader writes it."""
    return form.replace("_", " ")


def parse_synset(part: str, line: str) -> Synset:
    """Parse one line in the format of wndb(5WN)."""
    head, _, gloss = line.partition(" | ")
    fields = head.split()
    # The number of words and the lexical ids are hexadecimal, the number of pointers is decimal.
    words_end = FIRST_WORD + WORD_FIELDS * int(fields[FIRST_WORD - 1], 16)
    forms, lex_ids = (fields[FIRST_WORD + i : words_end : WORD_FIELDS] for i in range(WORD_FIELDS))
    pointers = fields[words_end + 1 :][: POINTER_FIELDS * int(fields[words_end])]
    symbols, targets = pointers[::POINTER_FIELDS], pointers[1::POINTER_FIELDS]
    return Synset(
        part=part,
        offset=int(fields[0]),
        lex_file=int(fields[1]),
        kind=fields[2],
        words=tuple(
            Word(MARKER.sub("", form), int(lex_id, 16))
            for form, lex_id in zip(forms, lex_ids, strict=True)
        ),
        similar=tuple(
            int(target)
            for symbol, target in zip(symbols, targets, strict=True)
            if symbol == SIMILAR_TO
        ),
        gloss=gloss.strip(),
    )


def read_lines(path: Path) -> list[str]:
    """Return the lines of one file of the database."""
    return path.read_text(encoding="ascii").splitlines()


def check_folder(folder: Path) -> None:
    """Raise WordNetError unless the folder holds every file that the build reads."""
    if not folder.is_dir():
        message = f"no such folder: {folder}; {INSTALL_HINT}"
        raise WordNetError(message)
    names = [*(f"data.{part}" for part in PARTS), COUNT_FILE]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        message = f"{folder} lacks {', '.join(missing)}; {INSTALL_HINT}"
        raise WordNetError(message)


def read_notice(folder: Path) -> str:
    """Return the licence notice that heads each data file, without its line numbers."""
    lines = [line for line in read_lines(folder / "data.noun") if line.startswith(NOTICE_INDENT)]
    texts = [line.lstrip().partition(" ")[2].rstrip() for line in lines]
    return "\n".join(texts) + "\n"


def read_synsets(folder: Path) -> list[Synset]:
    """Return every synset of the database, file after file, in the order of the files."""
    return [
        parse_synset(part, line)
        for part in PARTS
        for line in read_lines(folder / f"data.{part}")
        if not line.startswith(NOTICE_INDENT)
    ]


def read_tag_counts(folder: Path) -> dict[str, int]:
    """Return how often each sense key was tagged; keys that were never tagged are absent."""
    rows = (line.split() for line in read_lines(folder / COUNT_FILE))
    # Some keys of satellites keep the marker of their head word, which senseidx(5WN) leaves out.
    return {MARKER.sub("", key): int(count) for key, _, count in rows}


def head_words(synsets: Iterable[Synset]) -> dict[int, Word]:
    """Return the first word of each adjective synset that can head satellites, by offset."""
    return {synset.offset: synset.words[0] for synset in synsets if synset.kind == "a"}


def sense_key(synset: Synset, word: Word, heads: dict[int, Word]) -> str:
    """Return the key of senseidx(5WN) for one word of a synset."""
    tail = ":"
    if synset.kind == SATELLITE:
        head = next(heads[target] for target in synset.similar if target in heads)
        tail = f"{head.form.lower()}:{head.lex_id:02d}"
    kind = SENSE_TYPES[synset.kind]
    return f"{word.form.lower()}%{kind}:{synset.lex_file:02d}:{word.lex_id:02d}:{tail}"


def headword_counts(synsets: Sequence[Synset], tags: dict[str, int]) -> list[Counts]:
    """Return the counts of each synset's first word.

    A lemma's total is summed over the senses that the database has, because the count file still
    lists senses that earlier releases had.
    """
    heads = head_words(synsets)
    totals: Counter[tuple[str, str]] = Counter()
    for synset in synsets:
        for word in synset.words:
            count = tags.get(sense_key(synset, word, heads), 0)
            totals[synset.part, word.form.lower()] += count
    return [
        Counts(
            sense=tags.get(sense_key(synset, synset.words[0], heads)),
            lemma=totals[synset.part, synset.words[0].form.lower()],
        )
        for synset in synsets
    ]


def frequency_share(counts: Counts) -> Decimal | None:
    """Return this sense's share of its lemma's tags; without any tag there is no share."""
    if counts.lemma == 0:
        return None
    share = Decimal(counts.sense or 0) / Decimal(counts.lemma)
    return share.quantize(SHARE_STEP, rounding=ROUND_HALF_EVEN)


def spread(total: int, rows: int) -> list[int]:
    """Return ascending indices that lie evenly over a range; all of them where it is short."""
    picked = min(rows, total)
    return [i * total // picked for i in range(picked)]


def build_table(synsets: Sequence[Synset], counts: Sequence[Counts]) -> pa.Table:
    """Return the demo's columns for synsets and the counts of their first words."""
    # The dictionary is WordNet's whole list in its own order, so a code is the file's number.
    codes = pa.array([synset.lex_file for synset in synsets], pa.int8())
    columns = [
        [plain(synset.words[0].form) for synset in synsets],
        pa.DictionaryArray.from_arrays(codes, pa.array(LEXNAMES, pa.string())),
        [synset.gloss for synset in synsets],
        [synset.offset for synset in synsets],
        [count.sense for count in counts],
        [frequency_share(count) for count in counts],
        [RELEASED] * len(synsets),
        [[plain(word.form) for word in synset.words] for synset in synsets],
    ]
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def build(folder: Path, out: Path) -> int:
    """Write the Parquet file and, beside it, the licence notice; return the number of rows."""
    check_folder(folder)
    synsets = read_synsets(folder)
    counts = headword_counts(synsets, read_tag_counts(folder))
    picked = spread(len(synsets), ROWS)
    table = build_table([synsets[i] for i in picked], [counts[i] for i in picked])
    out.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        table, out, row_group_size=GROUP_ROWS, compression="zstd", compression_level=ZSTD_LEVEL
    )
    out.with_name(LICENSE_NAME).write_text(read_notice(folder), encoding="ascii")
    return len(picked)


def parse_args(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Build the demo's Parquet file from WordNet 3.0.")
    parser.add_argument(
        "--wordnet",
        type=Path,
        default=Path("/usr/share/wordnet"),
        help="folder with WordNet's data files (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("configs/demo/wordnet.parquet"),
        help="Parquet file to write (default: %(default)s)",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    args = parse_args(argv)
    try:
        rows = build(args.wordnet, args.out)
    except WordNetError as error:
        sys.stderr.write(f"build_demo_data: {error}\n")
        return 1
    sys.stderr.write(f"wrote {rows} rows, {args.out.stat().st_size} bytes: {args.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

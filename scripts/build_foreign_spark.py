"""Build the Parquet files of tests/data/foreign that Spark and Hive write.

It needs Java 17 and pyspark, in an environment of its own:

    python -m venv /tmp/spark && /tmp/spark/bin/pip install pyspark==3.5.6
    /tmp/spark/bin/python scripts/build_foreign_spark.py tests/data/foreign

Run it with pyspark 3.5 and with pyspark 4: each version writes files of its own names.
"""

import datetime as dt
import decimal
import shutil
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

ROWS = 12
COLUMNS = """
    id BIGINT, text STRING, price DECIMAL(9,2), at TIMESTAMP, day DATE, tags ARRAY<STRING>,
    pair STRUCT<a: INT, b: ARRAY<INT>>, counts MAP<STRING, INT>, flag BOOLEAN, real DOUBLE
"""
LEGACY = {
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}
MODERN = {
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
V2_PAGES = {"parquet.writer.version": "v2"}
# Lists as they were written before the standard had a form for them.
OLD_LISTS = """message old {
  required int32 id;
  optional binary text (UTF8);
  optional group two_levels (LIST) { repeated int32 array; }
  optional group tuples (LIST) { repeated group tuples_tuple { optional int32 a; } }
  repeated int32 bare;
  repeated group pairs { optional int32 a; optional binary b (UTF8); }
  optional group keys (MAP) {
    repeated group map (MAP_KEY_VALUE) { required binary key (UTF8); optional int32 value; }
  }
}"""
# Dates that a timestamp of nanoseconds can't hold.
YEARS = (1, 1582, 1677, 2024, 2262, 9999)


def row(at: int) -> list[object]:
    """One row; each column but the first is null in a row of its own."""
    values = [
        f"text number {at % 4}",
        decimal.Decimal(at) * 1000 / 4,
        dt.datetime(2024, 2, 29, 23, 59, at, 123456),  # noqa: DTZ001 - Spark takes it as UTC here
        dt.date(1970, 1, 1) + dt.timedelta(days=1000 * at),
        ["a", None, f"b{at}"][: at % 4],
        (at, [at, None][: at % 3]),
        {"k": at, f"k{at}": None},
        at % 2 == 0,
        at / 3,
    ]
    return [at, *(None if at == 1 + column else value for column, value in enumerate(values))]


def session(home: Path) -> SparkSession:
    """A Spark of one thread, its Hive metastore in a temporary folder."""
    return (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config(
            "spark.driver.extraJavaOptions", f"-Duser.timezone=UTC -Dderby.system.home={home}/derby"
        )
        .enableHiveSupport()
        .getOrCreate()
    )


class Builder:
    """Writes frames as single files with names that say what is special about them."""

    def __init__(self, spark: SparkSession, home: Path, out: Path) -> None:
        """Prepare.

        Args:
            spark: writes the files.
            home: a folder for what is not kept.
            out: where the files go.
        """
        self.spark, self.home, self.out = spark, home, out

    def write(
        self, frame: DataFrame, name: str, config: dict[str, str], **options: str | int
    ) -> None:
        """Write a frame as OUT/NAME.parquet."""
        for key, value in config.items():
            self.spark.conf.set(key, value)
        folder = self.home / name
        frame.coalesce(1).write.options(**options).parquet(str(folder))
        (part,) = folder.glob("part-*")
        shutil.copyfile(part, self.out / f"{name}.parquet")

    def hive(self, frame: DataFrame, name: str) -> None:
        """Write a frame as Hive's own Parquet SerDe does."""
        self.spark.conf.set("spark.sql.hive.convertMetastoreParquet", "false")
        frame.coalesce(1).createOrReplaceTempView("rows")
        self.spark.sql(f"CREATE TABLE words ({COLUMNS}) STORED AS PARQUET")
        self.spark.sql("INSERT INTO words SELECT * FROM rows")
        files = (self.home / "warehouse" / "words").glob("part-*")
        shutil.copyfile(max(files, key=lambda file: file.stat().st_size), self.out / name)

    def old_lists(self, name: str) -> None:
        """Write the lists of Thrift, Avro and Protocol Buffers by parquet-java's own writer."""
        jvm = self.spark._jvm.org.apache  # noqa: SLF001 - the only way to the Java library
        schema = jvm.parquet.schema.MessageTypeParser.parseMessageType(OLD_LISTS)
        target = self.home / name
        path = jvm.hadoop.fs.Path(str(target))
        builder = jvm.parquet.hadoop.example.ExampleParquetWriter.builder(path)
        writer = builder.withType(schema).build()
        for at in range(ROWS):
            group = jvm.parquet.example.data.simple.SimpleGroup(schema)
            group.append("id", at).append("text", f"text number {at}")
            two_levels, tuples = group.addGroup("two_levels"), group.addGroup("tuples")
            keys = group.addGroup("keys")
            for value in range(at % 3):
                two_levels.append("array", value)
                tuples.addGroup("tuples_tuple").append("a", value)
                group.append("bare", value)
                group.addGroup("pairs").append("a", value).append("b", f"b{value}")
                keys.addGroup("map").append("key", f"k{value}").append("value", value)
            writer.write(group)
        writer.close()
        shutil.copyfile(target, self.out / name)

    def partitions(self, name: str) -> None:
        """Write hive folders whose names need escaping, one of them null."""
        values = ["plain", "São Paulo", "a/b=c", "100%", "", None]
        rows = [(at, f"row {at}", city) for at, city in enumerate(values)]
        frame = self.spark.createDataFrame(rows, "id BIGINT, text STRING, city STRING")
        folder = self.home / name
        frame.coalesce(1).write.partitionBy("city").parquet(str(folder))
        for at, part in enumerate(sorted(folder.rglob("part-*"))):
            target = self.out / name / part.parent.name / f"{at}.parquet"
            target.parent.mkdir(parents=True)
            shutil.copyfile(part, target)


def build_3(builder: Builder, frame: DataFrame) -> None:
    """Write what Spark 3.5 and the Hive 2.3 inside it write."""
    rows = [(at, f"the year {year}", dt.datetime(year, 1, 1)) for at, year in enumerate(YEARS)]  # noqa: DTZ001
    years = builder.spark.createDataFrame(rows, "id BIGINT, text STRING, at TIMESTAMP")
    many = builder.spark.range(3000).selectExpr("id", "concat('text ', id % 50) AS text")

    builder.write(frame, "spark-3.5-legacy", LEGACY, compression="snappy")
    builder.write(frame, "spark-3.5-lz4-hadoop", LEGACY, compression="lz4")
    builder.write(frame, "spark-3.5-lz4-raw", MODERN, compression="lz4_raw")
    builder.write(frame, "spark-3.5-gzip", MODERN, compression="gzip")
    builder.write(frame, "spark-3.5-v2-zstd", MODERN, compression="zstd", **V2_PAGES)
    builder.write(years, "spark-3.5-int96-years", LEGACY)
    small = {"parquet.block.size": 8192, "parquet.page.size": 1024}
    builder.write(many, "spark-3.5-row-groups", MODERN, compression="none", **small)
    builder.hive(frame, "hive-2.3.parquet")
    builder.old_lists("parquet-java-old-lists.parquet")
    builder.partitions("spark-3.5-partitions")


def build_4(builder: Builder, frame: DataFrame) -> None:
    """Write what Spark 4 adds: variants, Bloom filters, split byte streams."""
    variants = frame.selectExpr("id", "text", "to_variant_object(pair) AS anything")
    bloom = {"parquet.bloom.filter.enabled#id": "true", "parquet.bloom.filter.expected.ndv#id": 12}
    split = {"parquet.enable.bytestreamsplit": "true", "parquet.enable.dictionary": "false"}
    builder.write(variants, "spark-4-variant", MODERN)
    builder.write(frame, "spark-4-bloom-split", MODERN, **V2_PAGES, **bloom, **split)


def main() -> None:
    """Build the files of the Spark that is installed."""
    out = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        spark = session(home)
        frame = spark.createDataFrame([row(at) for at in range(ROWS)], COLUMNS)
        build = build_3 if pyspark.__version__.startswith("3.") else build_4
        build(Builder(spark, home, out), frame)
        spark.stop()


if __name__ == "__main__":
    main()

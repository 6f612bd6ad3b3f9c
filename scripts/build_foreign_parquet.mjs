// Build the Parquet files of tests/data/foreign that JavaScript writers write.
//
//     npm install --prefix /tmp/js hyparquet-writer@0.17.0 parquetjs@0.11.2
//     cp scripts/build_foreign_parquet.mjs /tmp/js && node /tmp/js/build_foreign_parquet.mjs OUT

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parquetWriteBuffer } from 'hyparquet-writer'
import parquetjs from 'parquetjs'

const out = process.argv[2]
const rows = [...Array(12).keys()].map((id) => ({
  id: BigInt(id),
  text: id === 1 ? null : `text number ${id % 4}`,
  real: id === 10 ? null : id / 3,
  flag: id === 9 ? null : id % 2 === 0,
}))
const column = (name) => rows.map((row) => row[name])

// Statistics left out, row groups of several sizes, a delta encoding.
writeFileSync(
  join(out, 'hyparquet.parquet'),
  Buffer.from(
    parquetWriteBuffer({
      columnData: [
        { name: 'id', data: column('id'), type: 'INT64', encoding: 'DELTA_BINARY_PACKED' },
        { name: 'text', data: column('text'), type: 'STRING' },
        { name: 'real', data: column('real'), type: 'DOUBLE', encoding: 'BYTE_STREAM_SPLIT' },
        { name: 'flag', data: column('flag'), type: 'BOOLEAN' },
      ],
      statistics: false,
      rowGroupSize: [1, 4, 7],
    }),
  ),
)

// A repeated field that is no list: values at the top of the row.
const schema = new parquetjs.ParquetSchema({
  id: { type: 'INT64', compression: 'GZIP' },
  text: { type: 'UTF8', optional: true, compression: 'SNAPPY' },
  real: { type: 'DOUBLE', optional: true },
  flag: { type: 'BOOLEAN', optional: true },
  marks: { type: 'INT32', repeated: true },
})
const writer = await parquetjs.ParquetWriter.openFile(schema, join(out, 'parquetjs.parquet'))
writer.setRowGroupSize(5)
for (const row of rows) {
  const present = Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null))
  const id = Number(row.id)
  await writer.appendRow({ ...present, id, marks: [id, id + 1].slice(0, id % 3) })
}
await writer.close()

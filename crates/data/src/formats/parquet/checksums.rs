//! Parquet files whose pages carry checksums.
//!
//! The encoder of the `parquet` crate leaves the checksums of pages out, and its decoder checks
//! those that it finds. So each row group is encoded in memory. Then the CRC-32 of every page is
//! added to its header, and the positions of the pages move by the added bytes.

use std::io::Write;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{Field, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;

use super::thrift::Walker;

/// A file under construction.
pub(crate) struct FileWriter<W: Write + Send>(SerializedFileWriter<W>);

/// Encodes row groups of a file, in any order and on any thread.
pub(crate) struct GroupEncoder {
    factory: ArrowRowGroupWriterFactory,
    schema: TypePtr,
    properties: WriterPropertiesPtr,
}

/// A row group to which rows are added.
pub(crate) struct OpenGroup {
    columns: Vec<ArrowColumnWriter>,
    rows: usize,
}

/// An encoded row group: bytes and description of each column.
pub(crate) struct EncodedGroup(Vec<(Bytes, ColumnCloseResult)>);

/// Begins a file with these columns.
pub(crate) fn open<W: Write + Send>(
    out: W,
    schema: SchemaRef,
    properties: WriterProperties,
) -> Result<(FileWriter<W>, GroupEncoder)> {
    let (file, factory) = ArrowWriter::try_new(out, schema, Some(properties))?.into_serialized_writer()?;
    let (schema, properties) = (file.schema_descr().root_schema_ptr(), Arc::clone(file.properties()));
    Ok((FileWriter(file), GroupEncoder { factory, schema, properties }))
}

impl<W: Write + Send> FileWriter<W> {
    /// Appends a row group.
    pub(crate) fn append(&mut self, group: EncodedGroup) -> Result<()> {
        let mut writer = self.0.next_row_group()?;
        for (bytes, column) in group.0 {
            writer.append_column(&bytes, column)?;
        }
        writer.close().map(|_| ())
    }

    /// Completes the file.
    pub(crate) fn close(self) -> Result<W> {
        self.0.into_inner()
    }
}

impl GroupEncoder {
    /// Begins the row group of this number.
    pub(crate) fn begin(&self, number: usize) -> Result<OpenGroup> {
        Ok(OpenGroup { columns: self.factory.create_column_writers(number)?, rows: 0 })
    }

    /// Encodes a row group.
    pub(crate) fn finish(&self, group: OpenGroup) -> Result<EncodedGroup> {
        let mut file = SerializedFileWriter::new(Vec::new(), self.schema.clone(), self.properties.clone())?;
        let mut writer = file.next_row_group()?;
        let mut encoded = Vec::with_capacity(group.columns.len());
        for column in group.columns {
            let chunk = column.close()?;
            encoded.push(chunk.close().clone());
            chunk.append_to_row_group(&mut writer)?;
        }
        let metadata = writer.close()?;
        let bytes = file.into_inner()?;
        let columns = metadata.columns().iter().zip(encoded);
        Ok(EncodedGroup(
            columns.map(|(column, encoded)| add_checksums(&bytes, column, encoded)).collect::<Result<_>>()?,
        ))
    }
}

impl OpenGroup {
    /// Adds rows: a column for each field.
    pub(crate) fn write<'a>(&mut self, columns: impl IntoIterator<Item = (&'a Field, &'a ArrayRef)>) -> Result<()> {
        let mut writers = self.columns.iter_mut();
        let mut rows = 0;
        for (field, array) in columns {
            rows = array.len();
            for leaf in compute_leaves(field, array)? {
                let writer = writers.next().ok_or_else(|| ParquetError::General("a column has no writer".into()))?;
                writer.write(&leaf)?;
            }
        }
        self.rows += rows;
        Ok(())
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }
}

/// The pages of a column of an encoded file with checksums, and their description.
fn add_checksums(
    file: &[u8],
    column: &ColumnChunkMetaData,
    mut close: ColumnCloseResult,
) -> Result<(Bytes, ColumnCloseResult)> {
    let (start, length) = column.byte_range();
    let mut rest = &file[start as usize..(start + length) as usize];
    let mut bytes = Vec::with_capacity(rest.len() + (rest.len() >> 6) + 64);
    let mut first_data_page = None;
    let mut locations = close.offset_index.iter_mut().flat_map(|index| &mut index.page_locations);
    while !rest.is_empty() {
        let Page { header, body, dictionary } = Page::split(rest)?;
        rest = &rest[header.len() + body.len()..];
        let at = bytes.len() as i64;
        add_checksum(header, crc32fast::hash(body), &mut bytes)?;
        bytes.extend_from_slice(body);
        if !dictionary {
            first_data_page.get_or_insert(at);
            if let Some(location) = locations.next() {
                (location.offset, location.compressed_page_size) = (at, (bytes.len() as i64 - at) as i32);
            }
        }
    }
    let added = bytes.len() as i64 - length as i64;
    let dictionary = column.dictionary_page_offset().map(|_| 0);
    close.metadata = close
        .metadata
        .into_builder()
        .set_total_compressed_size(column.compressed_size() + added)
        .set_total_uncompressed_size(column.uncompressed_size() + added)
        .set_dictionary_page_offset(dictionary)
        .set_data_page_offset(first_data_page.unwrap_or(0))
        .build()?;
    close.bytes_written = bytes.len() as u64;
    Ok((bytes.into(), close))
}

/// A page of a column that was just encoded.
struct Page<'a> {
    header: &'a [u8],
    body: &'a [u8],
    dictionary: bool,
}

impl<'a> Page<'a> {
    /// The first page of some bytes.
    fn split(bytes: &'a [u8]) -> Result<Self> {
        let (mut kind, mut compressed) = (0, 0);
        let mut walker = Walker::new(bytes, bytes.len() as u64);
        walker.walk(&mut |path, value| match path {
            [1] => kind = value,
            [3] => compressed = value,
            _ => {}
        })?;
        let (header, rest) = bytes.split_at(bytes.len() - walker.left() as usize);
        let body = usize::try_from(compressed).ok().and_then(|length| rest.get(..length));
        let body = body.ok_or_else(|| unexpected("a page is longer than its column"))?;
        Ok(Self { header, body, dictionary: kind == DICTIONARY })
    }
}

/// The type of a dictionary page.
const DICTIONARY: i64 = 2;

/// The field number of the checksum; those before it are the page's type and two sizes.
const CHECKSUM: u8 = 4;

/// The head of a 32-bit integer whose number is one more than that of the field before.
const NEXT_I32: u8 = 0x15;

/// Writes a page header with the checksum of its page. In Thrift's compact protocol, the head of a
/// field holds the distance to the number of the field before, and the type.
fn add_checksum(header: &[u8], checksum: u32, out: &mut Vec<u8>) -> Result<()> {
    let mut at = 0;
    for _ in 1..CHECKSUM {
        if header.get(at) != Some(&NEXT_I32) {
            return Err(unexpected("a page header does not begin with its type and sizes"));
        }
        at += 1;
        while header.get(at).is_some_and(|byte| byte & 0x80 != 0) {
            at += 1;
        }
        at += 1;
    }
    match header.get(at).map(|head| (head >> 4, head & 15)) {
        // A later version of the encoder may write the checksum itself.
        Some((1, _)) => out.extend_from_slice(header),
        Some((distance @ 2.., kind)) => {
            out.extend_from_slice(&header[..at]);
            out.push(NEXT_I32);
            push_varint(zigzag(checksum as i32), out);
            out.push((distance - 1) << 4 | kind);
            out.extend_from_slice(&header[at + 1..]);
        }
        _ => return Err(unexpected("a page header ends after its sizes")),
    }
    Ok(())
}

fn zigzag(value: i32) -> u32 {
    (value << 1 ^ value >> 31) as u32
}

fn push_varint(mut value: u32, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn unexpected(what: &str) -> ParquetError {
    ParquetError::General(format!("the encoder's pages are not as expected: {what}"))
}

//! Checks the structure of a Parquet file before anything is decoded.
//!
//! The decoder allocates the sizes that page headers claim, so one flipped bit can allocate
//! gigabytes. Every claim is therefore compared with a known value first. Lengths are compared with
//! the existing bytes, page sizes with the size of their chunk, and value counts with the count of
//! their column.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::thrift::{Walker, damaged};

const MAGIC: &[u8; 4] = b"PAR1";
const FOOTER: u64 = 8;

/// Pages up to this size are decoded without a plausibility check. Larger pages must be plausible
/// for their codec.
const TRUSTED_PAGE: u64 = 16 << 20;

/// Longest footer. The footer describes every column of every row group.
const LONGEST_FOOTER: u64 = 64_000_000;

/// Encoding of pages that hold positions in the dictionary: the current number and the old one.
const DICTIONARY: [i64; 2] = [8, 2];

/// Encoding of pages with texts that share their beginnings.
const DELTA_BYTE_ARRAY: i64 = 7;

/// Largest permitted Zstandard window, as a power of two: 32 MiB.
const MAX_WINDOW_LOG: u32 = 25;

/// Checks the magic numbers, and that the footer's structure ends at its claimed length.
pub(super) fn check_footer(file: &File) -> io::Result<()> {
    let length = file.metadata()?.len();
    if length < FOOTER + 4 {
        return Err(damaged("it is too short to be a Parquet file"));
    }
    let mut source = BufReader::new(file);
    let mut head = [0; 4];
    source.seek(SeekFrom::Start(0))?;
    source.read_exact(&mut head)?;
    let mut tail = [0; FOOTER as usize];
    source.seek(SeekFrom::Start(length - FOOTER))?;
    source.read_exact(&mut tail)?;
    if &head != MAGIC {
        return Err(damaged("it is not a Parquet file"));
    }
    if &tail[4..] != MAGIC {
        return Err(damaged("it does not end like a Parquet file (cut off?)"));
    }
    let footer = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if footer > LONGEST_FOOTER {
        return Err(damaged("its footer has more than 64 MB; write fewer columns or larger row groups"));
    }
    let Some(start) = (length - FOOTER - 4).checked_sub(footer) else {
        return Err(damaged("its footer claims to be longer than the file (cut off?)"));
    };
    source.seek(SeekFrom::Start(start + 4))?;
    Walker::new(source, footer).walk(&mut |_, _| {})
}

/// Pages of a column in a row group, as their headers state them.
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnPages {
    /// Decompressed bytes of all pages.
    pub(super) bytes: u64,
    /// Decompressed bytes of the dictionary page.
    pub(super) dictionary: u64,
    /// Whether all values are positions in the dictionary.
    pub(super) only_dictionary: bool,
    /// Whether some texts are stored as a beginning of the previous text and a rest.
    pub(super) shared_beginnings: bool,
}

/// Checks every page header of every column against the claims of the column. Returns the pages of
/// each column in each row group. `limit` is the number of bytes that may be decompressed for the
/// check.
pub(super) fn check_pages(file: &File, metadata: &ParquetMetaData, limit: u64) -> io::Result<Vec<Vec<ColumnPages>>> {
    let length = file.metadata()?.len();
    let mut source = BufReader::with_capacity(1 << 16, file);
    let mut rows = 0i64;
    let mut all = Vec::with_capacity(metadata.row_groups().len());
    let mut guard = Guard { length, unclaimed: length, limit };
    for group in metadata.row_groups() {
        if group.num_rows() < 0 {
            return Err(damaged("a row group claims a negative number of rows"));
        }
        rows = rows.checked_add(group.num_rows()).ok_or_else(|| damaged("it claims more rows than can be counted"))?;
        let check = |column: &ColumnChunkMetaData| {
            guard
                .check_chunk(&mut source, column, group.num_rows())
                .map_err(|e| damaged(&format!("column `{}`: {e}", column.column_path().string())))
        };
        all.push(group.columns().iter().map(check).collect::<io::Result<Vec<_>>>()?);
    }
    if rows != metadata.file_metadata().num_rows() {
        return Err(damaged("its row groups do not add up to its number of rows"));
    }
    Ok(all)
}

/// Offset of the first page of a chunk, which may be a dictionary page. Without a dictionary,
/// writers leave its offset out or write 0. Without rows, the data offset may be 0.
fn first_page(dictionary: Option<i64>, data: i64) -> i64 {
    match dictionary {
        Some(offset) if offset > 0 && data > 0 => offset.min(data),
        Some(offset) if offset > 0 => offset,
        _ => data,
    }
}

/// What is left of the file's claims.
struct Guard {
    /// Bytes of the file.
    length: u64,
    /// Bytes that no column has claimed so far. Columns do not overlap.
    unclaimed: u64,
    /// Bytes that may still be decompressed for the check.
    limit: u64,
}

impl Guard {
    fn check_chunk(
        &mut self,
        source: &mut BufReader<&File>,
        column: &ColumnChunkMetaData,
        rows: i64,
    ) -> io::Result<ColumnPages> {
        let claim = |value: i64| u64::try_from(value).map_err(|_| damaged("a size is negative"));
        let first = first_page(column.dictionary_page_offset(), column.data_page_offset());
        let (start, size) = (claim(first)?, claim(column.compressed_size())?);
        let uncompressed = claim(column.uncompressed_size())?;
        let values = claim(column.num_values())?;
        let end = start.checked_add(size).filter(|&end| end <= self.length && start >= 4);
        let end = end.ok_or_else(|| damaged("its pages lie outside of the file"))?;
        self.unclaimed =
            self.unclaimed.checked_sub(size).ok_or_else(|| damaged("its pages are those of another column"))?;
        let flat = column.column_descr().max_rep_level() == 0;
        if flat && values != claim(rows)? {
            return Err(damaged("it has another number of values than there are rows"));
        }
        let (mut at, mut seen_values) = (start, 0u64);
        let mut pages = ColumnPages { only_dictionary: true, ..ColumnPages::default() };
        source.seek(SeekFrom::Start(start))?;
        while at < end {
            let (page, header) = read_page_header(source, end - at)?;
            at = (at + header)
                .checked_add(page.compressed)
                .filter(|&next| next <= end)
                .ok_or_else(|| damaged("a page runs past its column"))?;
            pages.bytes += page.uncompressed;
            if pages.bytes > uncompressed {
                return Err(damaged("its pages claim more bytes than the column"));
            }
            let body = at - page.compressed;
            if !self.is_plausible(source, column.compression(), &page)? {
                return Err(damaged("a page claims more bytes than its compressed form holds"));
            }
            source.seek(SeekFrom::Start(body))?;
            if page.dictionary {
                // Every dictionary entry that is not empty takes at least one byte in the page.
                if page.values > page.uncompressed {
                    return Err(damaged("its dictionary claims more entries than bytes"));
                }
                pages.dictionary += page.uncompressed;
            } else {
                seen_values += page.values;
                pages.only_dictionary &= DICTIONARY.contains(&page.encoding);
                pages.shared_beginnings |= page.encoding == DELTA_BYTE_ARRAY;
            }
            if seen_values > values {
                return Err(damaged("its pages claim more values than the column"));
            }
            source.seek_relative(i64::try_from(page.compressed).map_err(|_| damaged("a page is too large"))?)?;
        }
        if seen_values != values {
            return Err(damaged("its pages hold fewer values than the column claims"));
        }
        Ok(pages)
    }

    /// Whether the compressed page really holds as many bytes as it claims. `source` is at its
    /// first byte.
    ///
    /// Codecs with a bounded compression ratio are trusted up to that ratio. Zstandard can expand a
    /// block of 4 bytes to 128 KiB, so large pages are decompressed once to count their bytes.
    fn is_plausible(&mut self, source: &mut BufReader<&File>, codec: Compression, page: &Page) -> io::Result<bool> {
        let bounded = |most: u64| page.uncompressed <= page.compressed.saturating_mul(most);
        Ok(match codec {
            Compression::UNCOMPRESSED => page.uncompressed == page.compressed,
            _ if page.uncompressed <= TRUSTED_PAGE => true,
            Compression::SNAPPY | Compression::LZ4 | Compression::LZ4_RAW => bounded(256),
            Compression::GZIP(_) => bounded(1_100),
            Compression::ZSTD(_) => {
                self.limit = self.limit.checked_sub(page.uncompressed).ok_or_else(|| {
                damaged("its large pages take more memory than GT_MAX_DECODED allows; the default follows the size of the file")
            })?;
                source.seek_relative(page.levels as i64)?;
                let body = source.by_ref().take(page.compressed.saturating_sub(page.levels));
                let mut decoder = zstd::stream::read::Decoder::with_buffer(body)?;
                decoder.window_log_max(MAX_WINDOW_LOG)?;
                let claimed = page.uncompressed - page.levels;
                io::copy(&mut decoder.take(claimed + 1), &mut io::sink())? == claimed
            }
            _ => false,
        })
    }
}

struct Page {
    compressed: u64,
    uncompressed: u64,
    values: u64,
    /// Bytes of levels in front of the compressed values (second page version only).
    levels: u64,
    /// Number of the encoding of the values.
    encoding: i64,
    dictionary: bool,
}

/// Reads one page header and returns the number of its bytes.
fn read_page_header(source: &mut BufReader<&File>, budget: u64) -> io::Result<(Page, u64)> {
    let [mut uncompressed, mut compressed, mut values] = [None; 3];
    let mut dictionary = false;
    let (mut levels, mut encoding) = (0i64, 0i64);
    let mut walker = Walker::new(source.by_ref(), budget);
    walker.walk(&mut |path, value| match path {
        [2] => uncompressed = Some(value),
        [3] => compressed = Some(value),
        [5, 1] | [8, 1] => values = Some(value),
        [7, 1] => {
            values = Some(value);
            dictionary = true;
        }
        [5, 2] | [8, 4] => encoding = value,
        [8, 5] | [8, 6] => levels = levels.saturating_add(value.max(0)),
        _ => {}
    })?;
    let header = budget - walker.left();
    let claim = |value: Option<i64>| {
        value.and_then(|v| u32::try_from(v).ok()).map(u64::from).ok_or_else(|| damaged("a page header lacks a size"))
    };
    let page = Page {
        compressed: claim(compressed)?,
        uncompressed: claim(uncompressed)?,
        values: claim(values.or(Some(0)))?,
        levels: claim(Some(levels))?,
        encoding,
        dictionary,
    };
    if page.levels > page.uncompressed {
        return Err(damaged("a page's levels are longer than the page"));
    }
    Ok((page, header))
}

#[cfg(test)]
mod tests {
    use super::first_page;

    #[test]
    fn a_chunk_starts_with_its_dictionary_also_where_there_are_no_rows() {
        assert_eq!(first_page(Some(4), 40), 4);
        assert_eq!(first_page(Some(0), 40), 40);
        assert_eq!(first_page(None, 40), 40);
        // Arrow for C++ writes these offsets for a table without rows.
        assert_eq!(first_page(Some(4), 0), 4);
    }
}

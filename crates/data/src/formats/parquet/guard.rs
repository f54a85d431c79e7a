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
    let Some(start) = (length - FOOTER - 4).checked_sub(footer) else {
        return Err(damaged("its footer claims to be longer than the file (cut off?)"));
    };
    source.seek(SeekFrom::Start(start + 4))?;
    Walker::new(source, footer).walk(&mut |_, _| {})
}

/// Checks every page header of every column against the claims of the column.
pub(super) fn check_pages(file: &File, metadata: &ParquetMetaData) -> io::Result<()> {
    let length = file.metadata()?.len();
    let mut source = BufReader::with_capacity(1 << 16, file);
    let mut rows = 0i64;
    for group in metadata.row_groups() {
        if group.num_rows() < 0 {
            return Err(damaged("a row group claims a negative number of rows"));
        }
        rows = rows.checked_add(group.num_rows()).ok_or_else(|| damaged("it claims more rows than can be counted"))?;
        for column in group.columns() {
            check_chunk(&mut source, length, column, group.num_rows())
                .map_err(|e| damaged(&format!("column `{}`: {e}", column.column_path().string())))?;
        }
    }
    if rows != metadata.file_metadata().num_rows() {
        return Err(damaged("its row groups do not add up to its number of rows"));
    }
    Ok(())
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

fn check_chunk(
    source: &mut BufReader<&File>,
    file_length: u64,
    column: &ColumnChunkMetaData,
    rows: i64,
) -> io::Result<()> {
    let claim = |value: i64| u64::try_from(value).map_err(|_| damaged("a size is negative"));
    let first = first_page(column.dictionary_page_offset(), column.data_page_offset());
    let (start, size) = (claim(first)?, claim(column.compressed_size())?);
    let uncompressed = claim(column.uncompressed_size())?;
    let values = claim(column.num_values())?;
    let end = start.checked_add(size).filter(|&end| end <= file_length && start >= 4);
    let end = end.ok_or_else(|| damaged("its pages lie outside of the file"))?;
    let flat = column.column_descr().max_rep_level() == 0;
    if flat && values != claim(rows)? {
        return Err(damaged("it has another number of values than there are rows"));
    }
    let (mut at, mut seen_values, mut seen_bytes) = (start, 0u64, 0u64);
    source.seek(SeekFrom::Start(start))?;
    while at < end {
        let (page, header) = read_page_header(source, end - at)?;
        at = (at + header)
            .checked_add(page.compressed)
            .filter(|&next| next <= end)
            .ok_or_else(|| damaged("a page runs past its column"))?;
        seen_bytes += page.uncompressed;
        if seen_bytes > uncompressed {
            return Err(damaged("its pages claim more bytes than the column"));
        }
        let body = at - page.compressed;
        if !plausible(source, column.compression(), &page)? {
            return Err(damaged("a page claims more bytes than its compressed form holds"));
        }
        source.seek(SeekFrom::Start(body))?;
        if page.dictionary {
            // Every dictionary entry that is not empty takes at least one byte in the page.
            if page.values > page.uncompressed {
                return Err(damaged("its dictionary claims more entries than bytes"));
            }
        } else {
            seen_values += page.values;
        }
        if seen_values > values {
            return Err(damaged("its pages claim more values than the column"));
        }
        source.seek_relative(i64::try_from(page.compressed).map_err(|_| damaged("a page is too large"))?)?;
    }
    if seen_values != values {
        return Err(damaged("its pages hold fewer values than the column claims"));
    }
    Ok(())
}

struct Page {
    compressed: u64,
    uncompressed: u64,
    values: u64,
    /// Bytes of levels in front of the compressed values (second page version only).
    levels: u64,
    dictionary: bool,
}

/// Reads one page header and returns the number of its bytes.
fn read_page_header(source: &mut BufReader<&File>, budget: u64) -> io::Result<(Page, u64)> {
    let [mut uncompressed, mut compressed, mut values] = [None; 3];
    let mut dictionary = false;
    let mut levels = 0i64;
    let mut walker = Walker::new(source.by_ref(), budget);
    walker.walk(&mut |path, value| match path {
        [2] => uncompressed = Some(value),
        [3] => compressed = Some(value),
        [5, 1] | [8, 1] => values = Some(value),
        [7, 1] => {
            values = Some(value);
            dictionary = true;
        }
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
        dictionary,
    };
    if page.levels > page.uncompressed {
        return Err(damaged("a page's levels are longer than the page"));
    }
    Ok((page, header))
}

/// Whether the compressed page really holds as many bytes as it claims; `source` is at its first
/// byte.
///
/// Codecs with a bounded compression ratio are trusted up to that ratio. Zstandard can expand a
/// block of 4 bytes to 128 KiB, so large pages are decompressed once to count their bytes.
fn plausible(source: &mut BufReader<&File>, codec: Compression, page: &Page) -> io::Result<bool> {
    let bounded = |most: u64| page.uncompressed <= page.compressed.saturating_mul(most);
    Ok(match codec {
        Compression::UNCOMPRESSED => page.uncompressed == page.compressed,
        _ if page.uncompressed <= TRUSTED_PAGE => true,
        Compression::SNAPPY | Compression::LZ4 | Compression::LZ4_RAW => bounded(256),
        Compression::GZIP(_) => bounded(1_100),
        Compression::ZSTD(_) => {
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

//! The memory that the columns of a Parquet file take once they are decoded.
//!
//! Two encodings repeat values without bytes that back them: positions in a dictionary, which are
//! run-length coded, and texts that share their beginning with the previous text. The numbers of
//! values are known from the metadata, and the guard has checked them against the page headers.
//! Only texts differ in length. Their lengths are bounded first, and counted if the bound is too
//! large: pages are decompressed for that, but no text is repeated.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::guard::ColumnPages;

/// A column of a row group that is about to be decoded.
pub(super) struct Claim<'a> {
    pub(super) column: &'a ColumnChunkMetaData,
    pub(super) pages: &'a ColumnPages,
    /// Whether a text of the dictionary is kept once.
    pub(super) as_dictionary: bool,
    /// Bytes of a value, next to those of a text.
    pub(super) price: u64,
}

impl Claim<'_> {
    /// Upper bound of the bytes that the decoded column takes, from the page headers alone.
    pub(super) fn bound(&self) -> u64 {
        let values = self.values();
        let most = match self.column.column_type() {
            Type::BYTE_ARRAY if self.as_dictionary && self.pages.only_dictionary => 0,
            // A repeated text is not longer than the pages that it is copied from.
            Type::BYTE_ARRAY if self.pages.shared_beginnings => values.saturating_mul(self.pages.bytes),
            Type::BYTE_ARRAY => values.saturating_mul(self.pages.dictionary),
            Type::FIXED_LEN_BYTE_ARRAY => {
                values.saturating_mul(u64::try_from(self.column.column_descr().type_length()).unwrap_or(0))
            }
            _ => 0,
        };
        most.saturating_add(self.fixed())
    }

    /// The bytes that the decoded column takes. Pages of texts are decompressed and counted, each
    /// with up to seven texts more than it holds.
    pub(super) fn count(&self, file: &File, rows: usize) -> Result<u64> {
        if self.column.column_type() != Type::BYTE_ARRAY || self.as_dictionary && self.pages.only_dictionary {
            return Ok(self.bound());
        }
        let file = Arc::new(file.try_clone()?);
        let mut reader = SerializedPageReader::new(file, self.column, rows, None)?;
        let (mut lengths, mut total) = (Vec::new(), self.fixed());
        while let Some(page) = reader.get_next_page()? {
            if let Page::DictionaryPage { .. } = &page {
                lengths = lengths_of(page.buffer())?;
            } else {
                total = total.saturating_add(self.count_page(&page, &lengths)?);
            }
        }
        Ok(total)
    }

    /// Bytes of the values and the pages, without the texts that are repeated.
    pub(super) fn fixed(&self) -> u64 {
        self.values().saturating_mul(self.price).saturating_add(self.pages.bytes)
    }

    fn values(&self) -> u64 {
        u64::try_from(self.column.num_values()).unwrap_or(0)
    }

    /// Bytes of the texts of a page that the page itself does not hold.
    fn count_page(&self, page: &Page, lengths: &[u64]) -> Result<u64> {
        let values = values_of(page, self.column)?;
        match page.encoding() {
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                let Some((&bits, runs)) = values.split_first() else { return Ok(0) };
                Runs { bytes: runs, bits: u32::from(bits) }.sum(u64::from(page.num_values()), lengths)
            }
            Encoding::DELTA_BYTE_ARRAY => sum_of_deltas(values, u64::from(page.num_values())),
            _ => Ok(0),
        }
    }
}

fn damaged() -> ParquetError {
    ParquetError::General("a page of texts contradicts itself".into())
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (head, tail) = bytes.split_at_checked(count).ok_or_else(damaged)?;
    *bytes = tail;
    Ok(head)
}

fn take_length(bytes: &mut &[u8]) -> Result<usize> {
    let head = take(bytes, 4)?;
    Ok(u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize)
}

fn take_varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(damaged())
}

/// Lengths of the texts of a dictionary page.
fn lengths_of(mut bytes: &[u8]) -> Result<Vec<u64>> {
    let mut lengths = Vec::new();
    while !bytes.is_empty() {
        let length = take_length(&mut bytes)?;
        take(&mut bytes, length)?;
        lengths.push(length as u64);
    }
    Ok(lengths)
}

/// The values of a data page, without the levels in front of them.
fn values_of<'a>(page: &'a Page, column: &ColumnChunkMetaData) -> Result<&'a [u8]> {
    let mut bytes: &[u8] = page.buffer();
    match page {
        Page::DataPage { num_values, def_level_encoding, rep_level_encoding, .. } => {
            let described = column.column_descr();
            let levels =
                [(described.max_rep_level(), rep_level_encoding), (described.max_def_level(), def_level_encoding)];
            for (most, encoding) in levels.into_iter().filter(|(most, _)| *most > 0) {
                let bits = 16 - most.leading_zeros() as usize;
                let length = match encoding {
                    Encoding::RLE => take_length(&mut bytes)?,
                    _ => (*num_values as usize * bits).div_ceil(8),
                };
                take(&mut bytes, length)?;
            }
        }
        Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
            take(&mut bytes, *def_levels_byte_len as usize)?;
            take(&mut bytes, *rep_levels_byte_len as usize)?;
        }
        Page::DictionaryPage { .. } => {}
    }
    Ok(bytes)
}

/// Positions in a dictionary: runs of one position, and groups of eight packed positions.
struct Runs<'a> {
    bytes: &'a [u8],
    bits: u32,
}

impl Runs<'_> {
    /// Sum of the lengths at the first `count` positions. Positions beyond the dictionary are left
    /// to the decoder.
    fn sum(mut self, count: u64, lengths: &[u64]) -> Result<u64> {
        if self.bits > 32 {
            return Err(damaged());
        }
        let length =
            |position: u64| usize::try_from(position).ok().and_then(|at| lengths.get(at)).copied().unwrap_or(0);
        let (mut left, mut sum) = (count, 0u64);
        while left > 0 && !self.bytes.is_empty() {
            let head = take_varint(&mut self.bytes)?;
            if head & 1 == 0 {
                let mut position = [0; 8];
                let width = self.bits.div_ceil(8) as usize;
                position[..width].copy_from_slice(take(&mut self.bytes, width)?);
                let repeated = (head >> 1).min(left);
                sum = sum.saturating_add(repeated.saturating_mul(length(u64::from_le_bytes(position))));
                left -= repeated;
            } else {
                let groups = (head >> 1).min(left.div_ceil(8));
                let packed = take(&mut self.bytes, (groups * u64::from(self.bits)) as usize)?;
                for at in 0..(8 * groups).min(left) {
                    sum = sum.saturating_add(length(unpack(packed, at * u64::from(self.bits), self.bits)));
                }
                left -= (8 * groups).min(left);
            }
        }
        Ok(sum)
    }
}

/// The number of `bits` bits from bit `first` on, lowest bit first.
fn unpack(packed: &[u8], first: u64, bits: u32) -> u64 {
    let mut window = [0; 8];
    let start = (first / 8) as usize;
    let end = packed.len().min(start + 8);
    window[..end - start].copy_from_slice(&packed[start..end]);
    u64::from_le_bytes(window) >> (first % 8) & ((1u64 << bits) - 1)
}

/// Sum of the first `most` numbers of a delta-coded list at the beginning of `bytes`. The numbers are
/// the lengths of the beginnings that texts share with the previous text.
fn sum_of_deltas(mut bytes: &[u8], most: u64) -> Result<u64> {
    let block = take_varint(&mut bytes)?;
    let parts = take_varint(&mut bytes)?;
    let count = take_varint(&mut bytes)?;
    let zigzag = |value: u64| (value >> 1) as i64 ^ -((value & 1) as i64);
    let mut value = zigzag(take_varint(&mut bytes)?);
    let per_part = block.checked_div(parts).filter(|&size| size > 0 && size % 32 == 0).ok_or_else(damaged)?;
    let mut sum = value.max(0) as u64;
    let mut left = count.min(most).saturating_sub(1);
    while left > 0 {
        let least = zigzag(take_varint(&mut bytes)?);
        for &bits in take(&mut bytes, usize::try_from(parts).map_err(|_| damaged())?)? {
            let steps = per_part.min(left);
            left -= steps;
            if steps == 0 {
                break;
            }
            let size = (per_part / 8).checked_mul(u64::from(bits)).filter(|_| bits <= 56).ok_or_else(damaged)?;
            let packed = take(&mut bytes, usize::try_from(size).map_err(|_| damaged())?)?;
            for at in 0..steps {
                let step = unpack(packed, at * u64::from(bits), u32::from(bits)) as i64;
                value = value.wrapping_add(least).wrapping_add(step);
                sum = sum.saturating_add(value.max(0) as u64);
            }
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};

    use arrow_array::builder::{ListBuilder, StringBuilder};
    use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;
    use crate::formats::parquet::guard;

    /// Counted bytes of a column of texts without its fixed part, and the decompressed bytes of its
    /// pages.
    fn count(texts: ArrayRef, properties: WriterPropertiesBuilder) -> (u64, u64) {
        let batch = RecordBatch::try_from_iter([("texts", texts)]).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        let mut writer =
            ArrowWriter::try_new(file.try_clone().unwrap(), batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let reader = SerializedFileReader::new(file.try_clone().unwrap()).unwrap();
        let pages = guard::check_pages(&file, reader.metadata(), u64::MAX).unwrap();
        let group = reader.metadata().row_group(0);
        let claim = Claim { column: group.column(0), pages: &pages[0][0], as_dictionary: false, price: 8 };
        let counted = claim.count(&file, batch.num_rows()).unwrap();
        assert!(counted <= claim.bound(), "{counted} {}", claim.bound());
        (counted - claim.fixed(), pages[0][0].bytes)
    }

    fn texts() -> Vec<Option<String>> {
        let text = |at: usize| match at % 7 {
            3 => None,
            5 => Some("x".repeat(3_000)),
            _ => Some(format!("text number {}", at * at % 101)),
        };
        (0..10_000).map(text).collect()
    }

    #[test]
    fn positions_in_a_dictionary_are_counted_up_to_their_padding() {
        let flat: StringArray = texts().into_iter().collect();
        let mut lists = ListBuilder::new(StringBuilder::new());
        for words in texts().chunks(3) {
            words.iter().for_each(|word| lists.values().append_option(word.as_deref()));
            lists.append(words.len() == 3);
        }
        let lists = lists.finish();
        let length = |array: &StringArray| array.iter().flatten().map(|text| text.len() as u64).sum::<u64>();
        // The last list is null, so its items are not written.
        let kept = length(&flat) - flat.iter().skip(9_999).flatten().map(|text| text.len() as u64).sum::<u64>();
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties =
                || WriterProperties::builder().set_writer_version(version).set_data_page_row_count_limit(999);
            // Packed positions come in groups of eight. The rest of a page's last group is position 0,
            // a text of 13 bytes.
            let padded = |texts: u64| texts..=texts + 11 * 7 * 13;
            assert!(padded(length(&flat)).contains(&count(Arc::new(flat.clone()), properties()).0));
            assert!(padded(kept).contains(&count(Arc::new(lists.clone()), properties()).0));
        }
    }

    #[test]
    fn plain_texts_are_counted_with_their_pages() {
        let texts: StringArray = texts().into_iter().collect();
        for encoding in [Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY] {
            let properties = WriterProperties::builder().set_dictionary_enabled(false).set_encoding(encoding);
            let (counted, pages) = count(Arc::new(texts.clone()), properties);
            assert!(counted == 0 && pages > 1_000_000, "{encoding}: {counted} {pages}");
        }
    }

    #[test]
    fn shared_beginnings_are_counted_exactly() {
        let mut words: Vec<String> =
            (0..5_000).map(|at| format!("{}{:04}", "begin".repeat(at % 40), at * 7 % 5_000)).collect();
        words.sort();
        let shared = |pair: &[String]| {
            let [a, b] = pair else { unreachable!() };
            a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count() as u64
        };
        let expected: u64 = words.windows(2).map(shared).sum();
        let properties =
            WriterProperties::builder().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BYTE_ARRAY);
        let texts: StringArray = words.iter().map(|word| Some(word.as_str())).collect();
        assert_eq!(texts.null_count(), 0);
        assert_eq!(count(Arc::new(texts), properties).0, expected);
    }

    #[test]
    fn damaged_pages_of_texts_are_errors() {
        assert!(lengths_of(&[9, 0, 0, 0, 1]).is_err());
        assert!(sum_of_deltas(&[128, 1, 4, 200, 2], 1_000).is_err());
        assert!(sum_of_deltas(&[0, 0, 200, 2, 0], 1_000).is_err());
        assert!(Runs { bytes: &[0x03], bits: 33 }.sum(8, &[1]).is_err());
        assert!(Runs { bytes: &[0x03], bits: 9 }.sum(8, &[1]).is_err());
        // Positions beyond the dictionary are left to the decoder.
        assert_eq!(Runs { bytes: &[0x10, 7], bits: 3 }.sum(8, &[1]).unwrap(), 0);
    }
}

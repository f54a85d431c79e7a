//! The bytes of a text table on their way to the CSV reader. That reader takes any number of bytes
//! for a cell: the rest of the file behind a quote that is never closed, or all of an endless file.

use std::io::{Error, Read, Result};
use std::sync::Arc;

use crate::budget::{Budget, LONGEST_CELL, LONGEST_LINE, MOST_COLUMNS};
use crate::error::FileProblem;

/// A text table in which quotes may enclose cells. Inside quotes, two quotes stand for one.
pub(super) struct CellReader<R> {
    inner: R,
    delimiter: u8,
    budget: Arc<Budget>,
    state: State,
    /// Number of the current line.
    line: usize,
    /// Line of the last cell that begins with a quote.
    opened: usize,
    /// Number of the current byte, and of the first byte of the current cell and row.
    at: u64,
    cell: u64,
    row: u64,
    /// Number of the current cell in its row.
    column: usize,
    /// Whether the first row has ended.
    in_rows: bool,
    problem: Option<FileProblem>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The beginning of a file, with an optional byte order mark.
    File,
    Cell,
    Plain,
    Quoted,
    /// A quote inside quotes: the closing quote, or the first of two.
    Closing,
}

impl<R> CellReader<R> {
    pub(super) fn new(inner: R, delimiter: u8, budget: Arc<Budget>) -> Self {
        Self {
            inner,
            delimiter,
            budget,
            state: State::File,
            line: 1,
            opened: 0,
            at: 0,
            cell: 0,
            row: 0,
            column: 0,
            in_rows: false,
            problem: None,
        }
    }

    /// Why the table cannot be read, if that is known. The error of the CSV reader says less.
    pub(super) fn take_problem(&mut self) -> Option<FileProblem> {
        self.problem.take()
    }

    fn see(&mut self, byte: u8) {
        self.at += 1;
        self.state = match (self.state, byte) {
            (State::File, 0xef | 0xbb | 0xbf) => State::File,
            (State::File | State::Cell, b'"') => {
                self.opened = self.line;
                State::Quoted
            }
            (State::Quoted, b'"') => State::Closing,
            (State::Closing, b'"') | (State::Quoted, _) => State::Quoted,
            (_, b'\n' | b'\r') => {
                self.end_cell();
                (self.column, self.row, self.in_rows) = (0, self.at, true);
                State::Cell
            }
            (_, byte) if byte == self.delimiter => {
                self.end_cell();
                State::Cell
            }
            _ => State::Plain,
        };
        self.line += usize::from(byte == b'\n');
    }

    /// Checks the current cell, at its end or at the end of the bytes in memory.
    fn check(&mut self) {
        let problem = if self.at - self.cell > LONGEST_CELL {
            FileProblem::LongCell { line: self.line }
        } else if self.at - self.row > if self.in_rows { LONGEST_LINE } else { LONGEST_CELL } {
            if self.in_rows { FileProblem::LongLine { line: self.line } } else { FileProblem::LongHeader }
        } else if self.column >= MOST_COLUMNS {
            FileProblem::TooManyColumns
        } else {
            return;
        };
        self.problem.get_or_insert(problem);
    }

    fn end_cell(&mut self) {
        self.check();
        self.cell = self.at;
        self.column += 1;
    }
}

impl<R: Read> Read for CellReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.inner.read(buffer)?;
        for &byte in &buffer[..read] {
            self.see(byte);
        }
        self.check();
        if read == 0 && !buffer.is_empty() && self.state == State::Quoted {
            self.problem.get_or_insert(FileProblem::OpenQuote(self.opened));
        }
        if let Err(problem) = self.budget.charge_text(read as u64) {
            self.problem.get_or_insert(problem);
        }
        match &self.problem {
            Some(problem) => Err(Error::other(problem.clone())),
            None => Ok(read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader<R>(inner: R) -> CellReader<R> {
        CellReader::new(inner, b',', Budget::of_bytes(u64::from(u32::MAX)))
    }

    fn unclosed(text: &str) -> Option<usize> {
        let mut cells = reader(text.as_bytes());
        let mut all = String::new();
        let read = cells.read_to_string(&mut all);
        assert_eq!(all, text);
        match cells.take_problem() {
            Some(FileProblem::OpenQuote(line)) => read.is_err().then_some(line),
            problem => {
                assert_eq!((problem, read.is_ok()), (None, true));
                None
            }
        }
    }

    /// The problem of an endless table that begins with a text and repeats another one.
    fn problem(begin: &str, byte: u8) -> Option<FileProblem> {
        let mut cells = reader(begin.as_bytes().chain(std::io::repeat(byte)));
        let mut buffer = vec![0; 1 << 20];
        while cells.read(&mut buffer).is_ok() {}
        cells.take_problem()
    }

    #[test]
    fn endless_cells_rows_and_headers_end_in_an_error() {
        assert_eq!(problem("a,b\n1,", b'0'), Some(FileProblem::LongCell { line: 2 }));
        assert_eq!(problem("a,b\n1,\"", b'0'), Some(FileProblem::LongCell { line: 2 }));
        assert_eq!(problem("", 0), Some(FileProblem::LongCell { line: 1 }));
        assert_eq!(problem("a", b','), Some(FileProblem::TooManyColumns));
        assert_eq!(problem("a,b\n1,", b','), Some(FileProblem::TooManyColumns));
        // Sixteen cells of a million bytes each.
        let wide = format!("{}\n", ["a"; 17].map(|name| name.repeat(1_000_000)).join(","));
        assert_eq!(problem(&wide, b'0'), Some(FileProblem::LongHeader));
    }

    #[test]
    fn an_endless_table_of_short_rows_exceeds_its_budget() {
        let mut cells = CellReader::new(std::io::repeat(b'\n'), b',', Budget::of_bytes(0));
        let read = std::io::copy(&mut cells, &mut std::io::sink());
        assert!(read.is_err() && matches!(cells.take_problem(), Some(FileProblem::TooMuch { .. })));
    }

    #[test]
    fn a_quote_that_is_never_closed_is_found_with_its_line() {
        assert_eq!(unclosed("a,b\n1,\"5 inch\n2,3\n"), Some(2));
        assert_eq!(unclosed("\"a\",\"b\"\n\"two\nlines\",\"x\n"), Some(3));
        assert_eq!(unclosed("\u{feff}\"a,b\n"), Some(1));
        assert_eq!(unclosed("a\n\"\"\""), Some(2));
    }

    #[test]
    fn other_quotes_are_left_alone() {
        for text in [
            "",
            "a,b\n1,5\" wide\n",
            "a\r\n\"x \"\"y\"\"\"\r\n",
            "\"a\"\n\"b\"",
            "a,b\n\"x\"y,2\n",
            "\u{feff}\"a\",b\n1,2\n",
        ] {
            assert_eq!(unclosed(text), None, "{text}");
        }
    }
}

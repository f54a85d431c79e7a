//! Finds quotes that are never closed in a text table. The CSV reader would take the end of the
//! file for the end of the cell.

use std::io::{Read, Result};

/// A text table in which quotes may enclose cells. Inside quotes, two quotes stand for one.
pub(crate) struct Quotes<R> {
    inner: R,
    delimiter: u8,
    state: State,
    /// Number of the current line.
    line: usize,
    /// Line of the last cell that begins with a quote.
    opened: usize,
    ended: bool,
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

impl<R> Quotes<R> {
    pub(crate) fn new(inner: R, delimiter: u8) -> Self {
        Self { inner, delimiter, state: State::File, line: 1, opened: 0, ended: false }
    }

    /// Line (from 1) of a quoted cell that the file does not close; `None` before the end of the
    /// file.
    pub(crate) fn unclosed(&self) -> Option<usize> {
        (self.ended && self.state == State::Quoted).then_some(self.opened)
    }

    fn see(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::File, 0xef | 0xbb | 0xbf) => State::File,
            (State::File | State::Cell, b'"') => {
                self.opened = self.line;
                State::Quoted
            }
            (State::Quoted, b'"') => State::Closing,
            (State::Closing, b'"') | (State::Quoted, _) => State::Quoted,
            (_, b'\n' | b'\r') => State::Cell,
            (_, byte) if byte == self.delimiter => State::Cell,
            _ => State::Plain,
        };
        self.line += usize::from(byte == b'\n');
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.inner.read(buffer)?;
        self.ended = read == 0 && !buffer.is_empty();
        for &byte in &buffer[..read] {
            self.see(byte);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unclosed(text: &str) -> Option<usize> {
        let mut quotes = Quotes::new(text.as_bytes(), b',');
        let mut all = String::new();
        quotes.read_to_string(&mut all).unwrap();
        assert_eq!(all, text);
        quotes.unclosed()
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

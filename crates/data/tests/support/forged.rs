//! Parquet files that claim much: their headers and run-length codes are valid, and state any
//! number of values that no bytes back.

#![allow(dead_code, reason = "each test binary uses its own part")]

/// Writes Thrift's compact protocol.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    last: Vec<i16>,
}

const INTEGER: u8 = 5;
const LONG: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

impl Thrift {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn zigzag(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63) as u64);
    }

    fn field(&mut self, id: i16, kind: u8) {
        let last = self.last.last_mut().unwrap();
        self.bytes.push(((id - *last) as u8) << 4 | kind);
        *last = id;
    }

    fn integer(&mut self, id: i16, value: i64) {
        self.field(id, INTEGER);
        self.zigzag(value);
    }

    fn long(&mut self, id: i16, value: i64) {
        self.field(id, LONG);
        self.zigzag(value);
    }

    fn text(&mut self, value: &str) {
        self.varint(value.len() as u64);
        self.bytes.extend(value.as_bytes());
    }

    fn list(&mut self, id: i16, kind: u8, length: usize) {
        self.field(id, LIST);
        if length < 15 {
            self.bytes.push((length as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            self.varint(length as u64);
        }
    }

    fn structure(&mut self, fill: impl FnOnce(&mut Self)) {
        self.last.push(0);
        fill(self);
        self.last.pop();
        self.bytes.push(0);
    }
}

/// The type of a leaf.
#[derive(Clone, Copy, PartialEq)]
pub enum Leaf {
    Long,
    Text,
}

/// The values of a column.
#[derive(Clone)]
pub enum Content {
    /// Lists without any item, or missing values.
    Nothing,
    /// The same value everywhere: position 0 of a dictionary.
    Same(Vec<u8>),
    /// The same text everywhere: each text is the whole previous one.
    SharedBeginning(Vec<u8>),
}

/// A column of a forged file.
pub struct Column {
    pub name: &'static str,
    pub leaf: Leaf,
    /// Number of lists around a value.
    pub lists: usize,
    /// Values, or empty lists.
    pub values: u64,
    /// Rows in a page. All values of a column with items are in the lists of one row.
    pub content: Content,
}

impl Column {
    /// A number in each row.
    pub fn number(name: &'static str, rows: u64, value: i64) -> Self {
        Self { name, leaf: Leaf::Long, lists: 0, values: rows, content: Content::Same(value.to_le_bytes().into()) }
    }

    /// An empty list of lists in each row.
    pub fn empty(name: &'static str, rows: u64) -> Self {
        Self { name, leaf: Leaf::Long, lists: 2, values: rows, content: Content::Nothing }
    }

    /// One row with a list of lists, each with a single number.
    pub fn items(name: &'static str, values: u64) -> Self {
        Self { name, leaf: Leaf::Long, lists: 2, values, content: Content::Same(vec![0; 8]) }
    }

    /// A text in each row, which is position 0 of a dictionary.
    pub fn text(name: &'static str, rows: u64, length: usize) -> Self {
        let text = [&(length as u32).to_le_bytes()[..], &vec![b'x'; length]].concat();
        Self { name, leaf: Leaf::Text, lists: 0, values: rows, content: Content::Same(text) }
    }

    /// A text in each row, which is the previous text.
    pub fn repeated_text(name: &'static str, rows: u64, length: usize) -> Self {
        let content = Content::SharedBeginning(vec![b'x'; length]);
        Self { name, leaf: Leaf::Text, lists: 0, values: rows, content }
    }

    fn path(&self) -> Vec<&'static str> {
        let mut path = vec![self.name];
        (0..self.lists).for_each(|_| path.extend(["list", "element"]));
        path
    }

    fn schema(&self, out: &mut Thrift) {
        let path = self.path();
        for (at, name) in path.iter().enumerate() {
            out.structure(|out| {
                let leaf = at + 1 == path.len();
                if leaf {
                    out.integer(1, if self.leaf == Leaf::Long { 2 } else { 6 });
                }
                out.integer(3, if at % 2 == 1 { 2 } else { 0 });
                out.field(4, BINARY);
                out.text(name);
                if !leaf {
                    out.integer(5, 1);
                    if at % 2 == 0 {
                        out.integer(6, 3);
                    }
                } else if self.leaf == Leaf::Text {
                    out.integer(6, 0);
                }
            });
        }
    }

    /// The pages of the column.
    fn pages(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Content::Same(value) = &self.content {
            let mut header = Thrift::default();
            header.structure(|out| {
                out.integer(1, 2);
                out.integer(2, value.len() as i64);
                out.integer(3, value.len() as i64);
                out.field(7, STRUCT);
                out.structure(|out| {
                    out.integer(1, 1);
                    out.integer(2, 0);
                });
            });
            bytes.extend(header.bytes);
            bytes.extend(value);
        }
        let mut left = self.values;
        while left > 0 {
            let values = left.min(1 << 30);
            let body = self.body(values, left == self.values);
            let encoding = match self.content {
                Content::Nothing => 0,
                Content::Same(_) => 8,
                Content::SharedBeginning(_) => 7,
            };
            let mut header = Thrift::default();
            header.structure(|out| {
                out.integer(1, 0);
                out.integer(2, body.len() as i64);
                out.integer(3, body.len() as i64);
                out.field(5, STRUCT);
                out.structure(|out| {
                    out.integer(1, values as i64);
                    out.integer(2, encoding);
                    out.integer(3, 3);
                    out.integer(4, 3);
                });
            });
            bytes.extend(header.bytes);
            bytes.extend(body);
            left -= values;
        }
        bytes
    }

    fn body(&self, values: u64, first: bool) -> Vec<u8> {
        let mut body = Thrift::default();
        if self.lists > 0 {
            let items = !matches!(self.content, Content::Nothing);
            // A row with items begins once; rows without items begin at every level.
            body.levels(&match items && first {
                true => vec![(1, 0), (values - 1, 1)],
                false => vec![(values, u8::from(items))],
            });
            body.levels(&[(values, if items { self.lists as u8 } else { 0 })]);
        }
        match &self.content {
            Content::Nothing => {}
            Content::Same(_) => {
                body.bytes.push(1);
                body.varint(values << 1);
                body.bytes.push(0);
            }
            Content::SharedBeginning(text) => {
                let length = text.len() as i64;
                body.deltas(values, 0, length);
                body.deltas(values, length, -length);
                body.bytes.extend(text);
            }
        }
        body.bytes
    }
}

impl Thrift {
    /// Run-length coded levels of at most 2 bits with their length in front.
    fn levels(&mut self, runs: &[(u64, u8)]) {
        let mut levels = Self::default();
        for (count, level) in runs.iter().filter(|(count, _)| *count > 0) {
            levels.varint(count << 1);
            levels.bytes.push(*level);
        }
        self.bytes.extend((levels.bytes.len() as u32).to_le_bytes());
        self.bytes.extend(levels.bytes);
    }

    /// Delta-coded numbers: the first, a step, and no further steps.
    fn deltas(&mut self, count: u64, first: i64, step: i64) {
        [128, 4, count].into_iter().for_each(|value| self.varint(value));
        self.zigzag(first);
        let least = step.min(0);
        for block in 0..(count - 1).div_ceil(128) {
            if block > 0 {
                self.bytes.extend([0, 0, 0, 0, 0]);
                continue;
            }
            // Steps from the least one on, in 32 bits each, in as many quarters as there are steps.
            self.zigzag(least);
            let quarters = (count - 1).min(128).div_ceil(32) as usize;
            self.bytes.extend((0..4).map(|quarter| if quarter < quarters { 32 } else { 0 }));
            for at in 0..32 * quarters {
                let step = if at == 0 { step } else { 0 };
                self.bytes.extend(((step - least) as u32).to_le_bytes());
            }
        }
    }
}

/// A file with one row group of `rows` rows.
pub fn forge(rows: u64, columns: &[Column]) -> Vec<u8> {
    let mut file = b"PAR1".to_vec();
    let mut chunks = Vec::new();
    for column in columns {
        let pages = column.pages();
        chunks.push((file.len() as i64, pages.len() as i64));
        file.extend(pages);
    }
    let mut footer = Thrift::default();
    footer.structure(|out| {
        out.integer(1, 1);
        out.list(2, STRUCT, 1 + columns.iter().map(|column| column.path().len()).sum::<usize>());
        out.structure(|out| {
            out.field(4, BINARY);
            out.text("schema");
            out.integer(5, columns.len() as i64);
        });
        columns.iter().for_each(|column| column.schema(out));
        out.long(3, rows as i64);
        out.list(4, STRUCT, 1);
        out.structure(|out| {
            out.list(1, STRUCT, columns.len());
            for (column, (start, length)) in columns.iter().zip(&chunks) {
                out.structure(|out| {
                    out.long(2, *start);
                    out.field(3, STRUCT);
                    out.structure(|out| {
                        out.integer(1, if column.leaf == Leaf::Long { 2 } else { 6 });
                        out.list(2, INTEGER, 1);
                        out.zigzag(0);
                        let path = column.path();
                        out.list(3, BINARY, path.len());
                        path.iter().for_each(|name| out.text(name));
                        out.integer(4, 0);
                        out.long(5, column.values as i64);
                        out.long(6, *length);
                        out.long(7, *length);
                        out.long(9, *start);
                        if matches!(column.content, Content::Same(_)) {
                            out.long(11, *start);
                        }
                    });
                });
            }
            out.long(2, file.len() as i64);
            out.long(3, rows as i64);
        });
    });
    file.extend(&footer.bytes);
    file.extend((footer.bytes.len() as u32).to_le_bytes());
    file.extend(b"PAR1");
    file
}

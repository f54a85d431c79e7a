//! The stack machine of pickles, with data instructions only.
//!
//! Values are small and copied. Tuples, lists and dictionaries are stored in a [`Heap`] and named
//! by their position. So a value that the memo repeats costs nothing, a structure that contains
//! itself does no harm, and nothing here is recursive.

use std::collections::HashMap;

use super::error::{CheckpointError, shown};
use super::globals::{Global, StorageRef, TensorRef};
use super::opcode as op;

/// Most instructions of one pickle; a tensor takes about 35, so this allows about thirty thousand
/// tensors.
pub const MAX_INSTRUCTIONS: usize = 1 << 20;

/// A value on the stack; composite ones by their position in the [`Heap`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    None,
    Int(i64),
    /// An integer of more than 64 bits: its bytes, lowest first.
    Long(&'a [u8]),
    // These only occur next to weights (for example a learning rate), so their values are not kept.
    Bool,
    Float,
    Bytes,
    Text(&'a str),
    Global(Global),
    Tuple(usize),
    List(usize),
    Dict(usize),
    Storage(usize),
    Tensor(usize),
}

impl Value<'_> {
    /// What the value is, for messages.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::None => "`None`",
            Self::Bool => "a truth value",
            Self::Int(_) | Self::Long(_) => "an integer",
            Self::Float => "a float",
            Self::Bytes => "bytes",
            Self::Text(_) => "a text",
            Self::Global(_) => "a class or function",
            Self::Tuple(_) => "a tuple",
            Self::List(_) => "a list",
            Self::Dict(_) => "a dictionary",
            Self::Storage(_) => "a storage",
            Self::Tensor(_) => "a tensor",
        }
    }
}

/// The tuples, lists, dictionaries and other items that values refer to.
#[derive(Debug, Default)]
pub(super) struct Heap<'a> {
    pub(super) tuples: Vec<Vec<Value<'a>>>,
    pub(super) lists: Vec<Vec<Value<'a>>>,
    pub(super) dicts: Vec<Vec<(Value<'a>, Value<'a>)>>,
    pub(super) storages: Vec<StorageRef<'a>>,
    pub(super) tensors: Vec<TensorRef<'a>>,
}

/// Adds an item and returns its position.
pub(super) fn place<T>(list: &mut Vec<T>, item: T) -> usize {
    list.push(item);
    list.len() - 1
}

/// The object that a pickle describes.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    pub(super) heap: Heap<'a>,
    pub(super) root: Value<'a>,
    /// The first byte after the pickle.
    pub(super) end: usize,
}

/// Follows the pickle that starts at byte `start` and may reach to the end of `bytes`.
pub(super) fn unpickle(bytes: &[u8], start: usize) -> Result<Pickle<'_>, CheckpointError> {
    let mut machine = Machine {
        bytes,
        at: start,
        offset: start,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        heap: Heap::default(),
    };
    for _ in 0..MAX_INSTRUCTIONS {
        machine.offset = machine.at;
        match machine.byte()? {
            op::STOP => {
                let root = machine.pop()?;
                return Ok(Pickle { heap: machine.heap, root, end: machine.at });
            }
            code => machine.step(code)?,
        }
    }
    Err(CheckpointError::TooLong)
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the current instruction starts.
    offset: usize,
    stack: Vec<Value<'a>>,
    /// Stack lengths at the open marks.
    marks: Vec<usize>,
    memo: HashMap<u32, Value<'a>>,
    heap: Heap<'a>,
}

impl<'a> Machine<'a> {
    /// One instruction.
    fn step(&mut self, code: u8) -> Result<(), CheckpointError> {
        match code {
            op::PROTO => self.protocol(),
            op::FRAME => self.frame(),
            op::MARK => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            op::BINGET | op::LONG_BINGET | op::BINPUT | op::LONG_BINPUT | op::MEMOIZE => self.memory(code),
            op::APPEND | op::APPENDS => self.append(code),
            op::SETITEM | op::SETITEMS => self.set_items(code),
            op::BUILD => self.build(),
            _ => {
                let value = self.value(code)?;
                self.stack.push(value);
                Ok(())
            }
        }
    }

    /// An instruction that ends with a new value on the stack.
    fn value(&mut self, code: u8) -> Result<Value<'a>, CheckpointError> {
        Ok(match code {
            op::NONE => Value::None,
            op::NEWTRUE | op::NEWFALSE => Value::Bool,
            op::BININT => Value::Int(i32::from_le_bytes(self.array()?).into()),
            op::BININT1 => Value::Int(self.byte()?.into()),
            op::BININT2 => Value::Int(u16::from_le_bytes(self.array()?).into()),
            op::LONG1 => {
                let length = self.byte()?.into();
                long(self.take(length)?)
            }
            op::BINFLOAT => {
                self.array::<8>()?;
                Value::Float
            }
            op::BINUNICODE | op::BINSTRING => {
                let length = self.length()?;
                Value::Text(self.text(length)?)
            }
            op::SHORT_BINUNICODE | op::SHORT_BINSTRING => {
                let length = self.byte()?.into();
                Value::Text(self.text(length)?)
            }
            op::BINBYTES => {
                let length = self.length()?;
                self.take(length)?;
                Value::Bytes
            }
            op::SHORT_BINBYTES => {
                let length = self.byte()?.into();
                self.take(length)?;
                Value::Bytes
            }
            op::EMPTY_LIST => Value::List(place(&mut self.heap.lists, Vec::new())),
            op::EMPTY_DICT => Value::Dict(place(&mut self.heap.dicts, Vec::new())),
            op::EMPTY_TUPLE => self.tuple(Vec::new()),
            op::TUPLE => {
                let items = self.pop_mark()?;
                self.tuple(items)
            }
            op::TUPLE1 | op::TUPLE2 | op::TUPLE3 => {
                let items = self.pop_many(usize::from(code - op::TUPLE1) + 1)?;
                self.tuple(items)
            }
            op::GLOBAL => {
                let (module, name) = (self.line()?, self.line()?);
                Value::Global(Global::find(module, name)?)
            }
            op::STACK_GLOBAL => {
                let names = self.pop_many(2)?;
                let [Value::Text(module), Value::Text(name)] = names[..] else {
                    return Err(self.damaged("a global's name is not a text"));
                };
                Value::Global(Global::find(module, name)?)
            }
            op::REDUCE | op::NEWOBJ => self.call()?,
            op::BINPERSID => {
                let id = self.pop()?;
                self.heap.persistent(id).map_err(|problem| self.damaged(problem))?
            }
            code => return Err(CheckpointError::Instruction { name: op::refused_name(code), offset: self.offset }),
        })
    }

    fn protocol(&mut self) -> Result<(), CheckpointError> {
        match self.byte()? {
            2..=5 => Ok(()),
            found => Err(self.damaged(format!("protocol {found}, expected 2 to 5"))),
        }
    }

    /// A frame only states how much a reader may fetch at once.
    fn frame(&mut self) -> Result<(), CheckpointError> {
        let length = u64::from_le_bytes(self.array()?);
        let left = self.bytes.len() - self.at;
        if length > left as u64 {
            return Err(self.damaged(format!("a frame of {length} bytes where {left} are left")));
        }
        Ok(())
    }

    fn memory(&mut self, code: u8) -> Result<(), CheckpointError> {
        let key = match code {
            op::BINGET | op::BINPUT => self.byte()?.into(),
            op::LONG_BINGET | op::LONG_BINPUT => u32::from_le_bytes(self.array()?),
            // At most one entry per instruction, far below 2^32.
            _ => self.memo.len() as u32,
        };
        if matches!(code, op::BINGET | op::LONG_BINGET) {
            let value = *self.memo.get(&key).ok_or_else(|| self.damaged(format!("no value {key} in the memo")))?;
            self.stack.push(value);
        } else {
            let value = self.top()?;
            self.memo.insert(key, value);
        }
        Ok(())
    }

    fn append(&mut self, code: u8) -> Result<(), CheckpointError> {
        let items = if code == op::APPENDS { self.pop_mark()? } else { self.pop_many(1)? };
        match self.top()? {
            Value::List(list) => self.heap.lists[list].extend(items),
            other => return Err(self.damaged(format!("items are appended to {}", other.kind()))),
        }
        Ok(())
    }

    fn set_items(&mut self, code: u8) -> Result<(), CheckpointError> {
        let items = if code == op::SETITEMS { self.pop_mark()? } else { self.pop_many(2)? };
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err(self.damaged("a key without a value"));
        };
        match self.top()? {
            Value::Dict(dict) => self.heap.dicts[dict].extend(pairs.iter().map(|&[key, value]| (key, value))),
            other => return Err(self.damaged(format!("entries are set in {}", other.kind()))),
        }
        Ok(())
    }

    /// State dictionaries carry module versions as an attribute, `_metadata`, which does not affect
    /// values.
    fn build(&mut self) -> Result<(), CheckpointError> {
        let state = self.pop()?;
        match (self.top()?, state) {
            (Value::Dict(_), Value::Dict(_)) => Ok(()),
            (object, state) => Err(self.damaged(format!("{} as the attributes of {}", state.kind(), object.kind()))),
        }
    }

    fn call(&mut self) -> Result<Value<'a>, CheckpointError> {
        let operands = self.pop_many(2)?;
        match operands[..] {
            [Value::Global(function), Value::Tuple(arguments)] => {
                self.heap.call(function, arguments).map_err(|problem| self.damaged(problem))
            }
            [function, _] => Err(self.damaged(format!("a call of {}", function.kind()))),
            _ => Err(self.damaged("a call without arguments")),
        }
    }

    fn tuple(&mut self, items: Vec<Value<'a>>) -> Value<'a> {
        Value::Tuple(place(&mut self.heap.tuples, items))
    }

    // The stack. Nothing below the last mark can be reached before the mark is gone.

    fn reachable(&self) -> usize {
        self.stack.len() - self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Value<'a>, CheckpointError> {
        match self.stack.last() {
            Some(&value) if self.reachable() > 0 => Ok(value),
            _ => Err(self.damaged("the stack is empty")),
        }
    }

    fn pop(&mut self) -> Result<Value<'a>, CheckpointError> {
        let value = self.top()?;
        self.stack.pop();
        Ok(value)
    }

    fn pop_many(&mut self, count: usize) -> Result<Vec<Value<'a>>, CheckpointError> {
        if self.reachable() < count {
            return Err(self.damaged(format!("{count} values needed, {} on the stack", self.reachable())));
        }
        Ok(self.stack.split_off(self.stack.len() - count))
    }

    fn pop_mark(&mut self) -> Result<Vec<Value<'a>>, CheckpointError> {
        let mark = self.marks.pop().ok_or_else(|| self.damaged("no mark on the stack"))?;
        Ok(self.stack.split_off(mark))
    }

    // The bytes.

    fn take(&mut self, length: usize) -> Result<&'a [u8], CheckpointError> {
        let left = self.bytes.len() - self.at;
        if length > left {
            return Err(self.damaged(format!("{length} bytes needed, {left} left")));
        }
        let taken = &self.bytes[self.at..self.at + length];
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CheckpointError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn byte(&mut self) -> Result<u8, CheckpointError> {
        Ok(self.array::<1>()?[0])
    }

    fn length(&mut self) -> Result<usize, CheckpointError> {
        let length = u32::from_le_bytes(self.array()?);
        usize::try_from(length).map_err(|_| self.damaged(format!("a length of {length}")))
    }

    fn text(&mut self, length: usize) -> Result<&'a str, CheckpointError> {
        let bytes = self.take(length)?;
        str::from_utf8(bytes).map_err(|_| self.damaged("a text that is not UTF-8"))
    }

    fn line(&mut self) -> Result<&'a str, CheckpointError> {
        let length = self.bytes[self.at..].iter().position(|&b| b == b'\n');
        let length = length.ok_or_else(|| self.damaged("a name without an end"))?;
        let line = self.text(length)?;
        self.at += 1;
        Ok(line)
    }

    fn damaged(&self, problem: impl AsRef<str>) -> CheckpointError {
        CheckpointError::Pickle { offset: self.offset, problem: shown(problem.as_ref()) }
    }
}

/// An integer in two's complement, lowest byte first.
fn long(bytes: &[u8]) -> Value<'_> {
    if bytes.len() > 8 {
        return Value::Long(bytes);
    }
    let negative = bytes.last().is_some_and(|&b| b >= 0x80);
    let mut all = [if negative { 0xff } else { 0 }; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    Value::Int(i64::from_le_bytes(all))
}

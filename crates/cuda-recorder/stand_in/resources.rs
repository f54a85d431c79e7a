//! Contexts, streams, events, modules, functions and graphs, by the handles that programs hold.

use std::collections::BTreeMap;

use crate::capture::Seen;
use crate::state::{Code, INVALID_HANDLE};

/// A handle as programs hold it: a pointer without a target.
pub type Handle = usize;

/// The only context.
const CONTEXT: Handle = 0xc0;
/// The first handle of a resource; small numbers have special meanings.
const FIRST: Handle = 0x1000;

/// A kernel: the bytes of its parameters.
#[derive(Clone)]
pub struct Kernel {
    pub name: String,
    pub parameters: Vec<usize>,
    /// Bytes of shared memory that a launch may use.
    pub most_shared: u32,
}

pub enum Resource {
    Stream,
    /// The launches of the capture at the time when the event was recorded.
    Event(Option<Seen>),
    Module(BTreeMap<String, Kernel>),
    Graph,
    Executable,
}

impl Resource {
    fn word(&self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Event(_) => "event",
            Self::Module(_) => "module",
            Self::Graph => "graph",
            Self::Executable => "executable",
        }
    }
}

/// Resources in use; each has a number among those of its kind.
pub struct Resources {
    held: BTreeMap<Handle, (usize, Resource)>,
    made: BTreeMap<&'static str, usize>,
    functions: Vec<Kernel>,
    contexts: usize,
    next: Handle,
}

impl Resources {
    pub const fn new() -> Self {
        Self { held: BTreeMap::new(), made: BTreeMap::new(), functions: Vec::new(), contexts: 0, next: FIRST }
    }

    pub fn retain_context(&mut self) -> Handle {
        self.contexts += 1;
        CONTEXT
    }

    pub fn release_context(&mut self) -> Result<(), Code> {
        self.contexts = self.contexts.checked_sub(1).ok_or(INVALID_HANDLE)?;
        Ok(())
    }

    pub fn add(&mut self, resource: Resource) -> Handle {
        let number = self.made.entry(resource.word()).or_default();
        *number += 1;
        let handle = self.next;
        self.held.insert(handle, (*number, resource));
        self.next += 1;
        handle
    }

    pub fn remove(&mut self, handle: Handle) -> Result<(), Code> {
        self.held.remove(&handle).map(|_| ()).ok_or(INVALID_HANDLE)
    }

    pub fn get(&self, handle: Handle) -> Result<&Resource, Code> {
        self.held.get(&handle).map(|(_, resource)| resource).ok_or(INVALID_HANDLE)
    }

    pub fn number(&self, handle: Handle) -> Result<usize, Code> {
        self.held.get(&handle).map(|(number, _)| *number).ok_or(INVALID_HANDLE)
    }

    /// A stream's name in the recording; the null handle is the default stream.
    pub fn stream(&self, handle: Handle) -> Result<String, Code> {
        match (handle, self.held.get(&handle)) {
            (0, _) => Ok("s0".into()),
            (_, Some((number, Resource::Stream))) => Ok(format!("s{number}")),
            _ => Err(INVALID_HANDLE),
        }
    }

    /// Records an event; its number.
    pub fn record(&mut self, event: Handle, seen: Option<Seen>) -> Result<usize, Code> {
        match self.held.get_mut(&event) {
            Some((number, Resource::Event(at))) => {
                *at = seen;
                Ok(*number)
            }
            _ => Err(INVALID_HANDLE),
        }
    }

    /// An event's number, and what was recorded.
    pub fn recorded(&self, event: Handle) -> Result<(usize, Option<Seen>), Code> {
        match self.held.get(&event) {
            Some((number, Resource::Event(seen))) => Ok((*number, seen.clone())),
            _ => Err(INVALID_HANDLE),
        }
    }

    pub fn add_function(&mut self, kernel: Kernel) -> Handle {
        self.functions.push(kernel);
        self.functions.len()
    }

    pub fn function(&mut self, handle: Handle) -> Result<&mut Kernel, Code> {
        handle.checked_sub(1).and_then(|at| self.functions.get_mut(at)).ok_or(INVALID_HANDLE)
    }

    /// Resources that were not released.
    pub fn held(&self) -> impl Iterator<Item = String> {
        let contexts = (self.contexts > 0).then(|| format!("{} contexts", self.contexts));
        contexts.into_iter().chain(self.held.values().map(|(number, resource)| format!("{} {number}", resource.word())))
    }
}

/// The kernels of an image: a name and the sizes of its parameters in each line.
pub fn kernels(text: &str) -> Option<BTreeMap<String, Kernel>> {
    let kernel = |line: &str| {
        let (name, sizes) = line.split_once(' ')?;
        let parameters = sizes.split(' ').map(|size| size.parse().ok()).collect::<Option<_>>()?;
        // Shared memory that a kernel may use without a larger limit.
        let kernel = Kernel { name: name.to_owned(), parameters, most_shared: 48 << 10 };
        Some((name.to_owned(), kernel))
    };
    text.lines().map(kernel).collect()
}

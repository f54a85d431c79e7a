//! Device memory: addresses that only this device understands, bytes in the computer's memory.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::state::{Code, INVALID_VALUE, OUT_OF_MEMORY};

/// The first address. No size, count or real number among arguments looks like an address.
const FIRST: u64 = 0x7ec0_5a00_0000_0000;
/// Allocations begin at multiples, as the driver's do, and do not touch.
const ALIGNMENT: u64 = 512;
/// Total memory of an H200.
const TOTAL: usize = 143_771 << 20;

/// Memory that an allocation is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the device, whose memory is limited.
    Device,
    /// In the computer's own memory, mapped for the device.
    Host,
}

struct Allocation {
    number: usize,
    size: usize,
    place: Place,
    /// `None` after the allocation was freed.
    bytes: Option<Vec<u8>>,
}

/// All allocations of the process. Freed allocations stay known, so that their use is detected.
pub struct Memory {
    allocations: BTreeMap<u64, Allocation>,
    next: u64,
    used: usize,
    pub total: usize,
}

impl Memory {
    pub const fn new() -> Self {
        Self { allocations: BTreeMap::new(), next: FIRST, used: 0, total: TOTAL }
    }

    pub fn free_bytes(&self) -> usize {
        self.total.saturating_sub(self.used)
    }

    /// A number and an address.
    pub fn allocate(&mut self, size: usize, place: Place) -> Result<(usize, u64), Code> {
        let device = place == Place::Device;
        if device && size > self.free_bytes() {
            return Err(OUT_OF_MEMORY);
        }
        let (number, address) = (self.allocations.len() + 1, self.next);
        // Device memory is not zero at first.
        let bytes = Some(vec![if device { 0xa5 } else { 0 }; size]);
        self.allocations.insert(address, Allocation { number, size, place, bytes });
        self.next += (size as u64 / ALIGNMENT + 2) * ALIGNMENT;
        self.used += if device { size } else { 0 };
        Ok((number, address))
    }

    /// Frees an allocation. A second call for the same allocation is an error.
    pub fn release(&mut self, address: u64) -> Result<usize, Code> {
        let allocation = self.allocations.get_mut(&address).ok_or(INVALID_VALUE)?;
        let bytes = allocation.bytes.take().ok_or(INVALID_VALUE)?;
        self.used -= if allocation.place == Place::Device { bytes.len() } else { 0 };
        Ok(allocation.number)
    }

    /// The address by which the program accesses mapped memory.
    pub fn host_address(&mut self, address: u64) -> Result<*mut u8, Code> {
        let bytes = self.allocations.get_mut(&address).and_then(|allocation| allocation.bytes.as_mut());
        Ok(bytes.ok_or(INVALID_VALUE)?.as_mut_ptr())
    }

    /// The device address of mapped memory, from its host address.
    pub fn base_of_host(&self, host: *const u8) -> Option<u64> {
        let is = |allocation: &Allocation| {
            allocation.place == Place::Host && allocation.bytes.as_ref().is_some_and(|bytes| bytes.as_ptr() == host)
        };
        self.allocations.iter().find(|(_, allocation)| is(allocation)).map(|(&base, _)| base)
    }

    /// Whether bytes lie inside one allocation.
    pub fn holds(&self, address: u64, size: usize) -> bool {
        self.locate(address).is_some_and(|(base, allocation)| {
            allocation.bytes.is_some() && (address - base) as usize + size <= allocation.size
        })
    }

    pub fn range(&mut self, address: u64, size: usize) -> Result<&mut [u8], Code> {
        let (&base, allocation) = self.allocations.range_mut(..=address).next_back().ok_or(INVALID_VALUE)?;
        let from = (address - base) as usize;
        allocation.bytes.as_mut().and_then(|bytes| bytes.get_mut(from..from + size)).ok_or(INVALID_VALUE)
    }

    /// The allocation that an address belongs to; one past the end belongs to it too.
    fn locate(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (&base, allocation) = self.allocations.range(..=address).next_back()?;
        (address - base <= allocation.size as u64).then_some((base, allocation))
    }

    /// An address as the recording has it.
    pub fn describe(&self, address: u64) -> String {
        match self.locate(address) {
            Some((base, allocation)) => format!("#{}+{}", allocation.number, address - base),
            None => format!("an unknown address ({address:#x})"),
        }
    }

    /// Whether a word is an address, even of freed memory or between allocations.
    fn is_address(&self, word: u64) -> bool {
        (FIRST..self.next).contains(&word)
    }

    /// Bytes as the recording has them: addresses where they can be, other words in hexadecimal.
    pub fn describe_words(&self, bytes: &[u8], to: &mut String) {
        let (pairs, rest) = bytes.as_chunks::<8>();
        for pair in pairs {
            let word = u64::from_le_bytes(*pair);
            let _ = match self.is_address(word) {
                true => write!(to, " {}", self.describe(word)),
                false => write!(to, " {word:x}"),
            };
        }
        if !rest.is_empty() {
            let word = rest.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
            let _ = write!(to, " {word:x}");
        }
    }

    /// A pointer among bytes that does not point at memory in use.
    pub fn stale(&self, bytes: &[u8]) -> Option<String> {
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let stale = |&word: &u64| self.is_address(word) && !self.holds(word, 0);
        words.filter(stale).map(|word| self.describe(word)).next()
    }

    /// A number that stands for bytes, the same wherever allocations lie.
    pub fn digest(&self, bytes: &[u8]) -> u64 {
        let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let (words, rest) = bytes.as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_le_bytes(*word)).flat_map(|word| match self.locate(word) {
            Some((base, allocation)) if self.is_address(word) => [allocation.number as u64, word - base],
            _ => [0, word],
        });
        rest.iter().map(|&byte| u64::from(byte)).fold(words.fold(0xcbf2_9ce4_8422_2325, step), step)
    }

    /// Allocations that were not freed.
    pub fn held(&self) -> impl Iterator<Item = String> {
        let live = self.allocations.values().filter(|allocation| allocation.bytes.is_some());
        live.map(|allocation| format!("#{} of {} bytes", allocation.number, allocation.size))
    }
}

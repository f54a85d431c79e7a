//! How channels lie inside the engine.
//!
//! Files and models number channels head by head: channel `c` of head `h` is `h·d_k + c`. The
//! engine interleaves heads, `c·H + h`, so that a register holds the same channel of several heads
//! and their dot products need no sums across lanes. Heads are padded to 1, 2, 4, 8, 16 or a
//! multiple of 32, channels to whole registers; padding carries zeros through every operation. So
//! any width and number of heads runs on the same kernels.

/// Numbers in a register; widths are padded to multiples of it.
const LANES: usize = 16;

/// Rounds up to whole registers. A width that cannot be rounded up is larger than any memory, and
/// becomes the largest number.
pub(crate) fn padded(width: usize) -> usize {
    width.checked_next_multiple_of(LANES).unwrap_or(usize::MAX)
}

/// The largest width, far beyond any memory, so that small multiples of it do not overflow.
const MOST: usize = 1 << 31;

/// The place of every channel of a stream of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    width: usize,
    heads: usize,
    padded_heads: usize,
    padded_width: usize,
}

impl Channels {
    /// Channels of `heads` heads, together `width`.
    ///
    /// # Panics
    /// If `heads` does not divide `width`, one of them is 0, or `width` is above 2^31; configurations
    /// are checked before.
    pub fn new(width: usize, heads: usize) -> Self {
        assert!(width <= MOST, "a width of {width} is larger than any memory");
        assert!(heads > 0 && width > 0 && width.is_multiple_of(heads), "{heads} heads must divide the width {width}");
        // On a GPU a lane holds every 32nd channel, which must be of one head, or of every 32nd
        // head.
        let padded_heads = if heads <= LANES { heads.next_power_of_two() } else { heads.next_multiple_of(2 * LANES) };
        // With few heads, several channels share a register.
        let per_register = (LANES / padded_heads).max(1);
        let padded_width = padded_heads * (width / heads).next_multiple_of(per_register);
        Self { width, heads, padded_heads, padded_width }
    }

    /// Number of channels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Channels per head.
    pub fn per_head(&self) -> usize {
        self.width / self.heads
    }

    /// Heads with padding.
    pub(crate) fn padded_heads(&self) -> usize {
        self.padded_heads
    }

    /// Numbers of a row with one per head, repeated to fill a register.
    pub(crate) fn lanes(&self) -> usize {
        self.padded_heads.max(LANES)
    }

    /// Channels with padding.
    pub(crate) fn padded_width(&self) -> usize {
        self.padded_width
    }

    /// Where a channel lies inside the engine.
    pub(crate) fn place(&self, channel: usize) -> usize {
        let per_head = self.per_head();
        (channel % per_head) * self.padded_heads + channel / per_head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_channel_has_a_place_of_its_own() {
        for (width, heads) in
            [(64, 8), (80, 8), (1, 1), (7, 1), (7, 7), (70, 7), (16, 2), (6, 3), (96, 24), (40, 20), (12, 12)]
        {
            let channels = Channels::new(width, heads);
            assert_eq!(channels.padded_width() % LANES, 0);
            assert_eq!(channels.padded_width() % channels.padded_heads(), 0);
            let mut places: Vec<usize> = (0..width).map(|j| channels.place(j)).collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), width);
            assert!(places[width - 1] < channels.padded_width());
        }
        assert_eq!(Channels::new(64, 8).padded_width(), 64);
        assert_eq!(Channels::new(80, 8).padded_width(), 80);
    }
}

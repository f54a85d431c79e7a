//! Dropout: y = x·m/(1 − p), m = 1 with probability 1 − p, else 0; dx = dy·m/(1 − p).
//!
//! Masks are not stored. A mask is a function of a key (one per training step), a site in the
//! network, the row in the batch and the channel; SplitMix64 serves as a counter-based generator.
//! So a mask is the same on every device, for any number of threads, forward and backward.

use crate::real::Real;

/// A place in the network where values are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// The nodes' embedded features.
    Input,
    /// Values of a branch of a layer, by the number of the branch: attended values, or scores, for
    /// edges; the outputs of other branches than attention.
    Branch(usize, usize, crate::Stream),
    /// Hidden values of a layer's feed-forward half.
    Hidden(usize, crate::Stream),
}

impl Site {
    fn number(self) -> u32 {
        let of = |layer: usize, stream: crate::Stream, kind: u32| {
            1 + 4 * layer as u32 + 2 * kind + u32::from(stream == crate::Stream::Edge)
        };
        match self {
            Site::Input => 0,
            Site::Branch(layer, branch, stream) => of(layer, stream, 0) + ((branch as u32) << 24),
            Site::Hidden(layer, stream) => of(layer, stream, 1),
        }
    }
}

/// Where a channel counts in a row of random numbers; padding counts nowhere.
pub(crate) const PADDING: u32 = u32::MAX;

/// Multiplies rows `[first.., order.len()]` by the mask of a site, in place. `order[place]` is the
/// position of a channel in the row's random numbers. Channel c of head h has position c·heads + h.
pub(crate) fn drop_values<T: Real>(share: f64, key: u64, site: Site, first: usize, order: &[u32], values: &mut [T]) {
    // Sixteen bits decide about a value, so a word serves four.
    let threshold = (share * 65_536.0).round() as u64;
    let scale = T::from_f64(1.0 / (1.0 - share));
    let key = mix(key ^ mix(u64::from(site.number())));
    let words = order.iter().filter(|&&at| at != PADDING).count().div_ceil(4) as u64;
    for (row, values) in values.chunks_exact_mut(order.len()).enumerate() {
        let base = (first + row) as u64 * words;
        let (mut held, mut word) = (u32::MAX, 0);
        for (value, &at) in values.iter_mut().zip(order) {
            if at == PADDING {
                continue;
            }
            if at / 4 != held {
                held = at / 4;
                word = mix(key.wrapping_add((base + u64::from(held)).wrapping_mul(GOLDEN)));
            }
            let bits = word >> (16 * (at % 4)) & 0xffff;
            *value = if bits < threshold { T::ZERO } else { *value * scale };
        }
    }
}

pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    #[test]
    fn mix_gives_the_numbers_of_splitmix64() {
        // Seed 1234567: its first outputs, as published with the generator.
        let outputs = [1, 2, 3].map(|i: u64| mix(1_234_567u64.wrapping_add(i.wrapping_mul(GOLDEN))));
        assert_eq!(outputs, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn the_share_is_right_everywhere() {
        let order: Vec<u32> = (0..64).collect();
        let mut values = vec![1.0f64; 64 * 4000];
        drop_values(0.3, 7, Site::Hidden(2, Stream::Node), 0, &order, &mut values);
        assert!(values.iter().all(|&v| v == 0.0 || (v - 1.0 / 0.7).abs() < 1e-12));
        let share = |values: &mut dyn Iterator<Item = &f64>| {
            let (dropped, all) = values.fold((0, 0), |(d, n), &v| (d + usize::from(v == 0.0), n + 1));
            dropped as f64 / f64::from(all)
        };
        assert!((share(&mut values.iter()) - 0.3).abs() < 0.005);
        for channel in 0..64 {
            assert!((share(&mut values.iter().skip(channel).step_by(64)) - 0.3).abs() < 0.05, "channel {channel}");
        }
        // Neighbouring rows and channels are dropped independently of each other.
        for step in [1, 64, 65] {
            let both = (0..values.len() - step).filter(|&i| values[i] == 0.0 && values[i + step] == 0.0).count();
            assert!((both as f64 / values.len() as f64 - 0.09).abs() < 0.005, "step {step}");
        }
    }

    #[test]
    fn masks_follow_row_and_channel_not_their_place_in_memory() {
        let order: Vec<u32> = (0..32).collect();
        let mut all = vec![1.0f32; 32 * 10];
        drop_values(0.5, 1, Site::Input, 0, &order, &mut all);
        let mut tail = vec![1.0f32; 32 * 4];
        drop_values(0.5, 1, Site::Input, 6, &order, &mut tail);
        assert_eq!(tail, all[6 * 32..]);
        let mut other = vec![1.0f32; 32 * 10];
        drop_values(0.5, 2, Site::Input, 0, &order, &mut other);
        assert_ne!(other, all);
        other.fill(1.0);
        drop_values(0.5, 1, Site::Branch(0, 0, Stream::Node), 0, &order, &mut other);
        assert_ne!(other, all);
        // Padding is left alone.
        let mut padded = [1.0f32; 3];
        drop_values(0.99, 1, Site::Input, 0, &[0, PADDING, 1], &mut padded);
        assert_eq!(padded[1], 1.0);
    }
}

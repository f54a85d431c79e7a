//! Where copies of parameters lie for the kernels' products.
//!
//! On tensor cores a lane takes its share of sixteen columns and 8 (TF32) or 16 (bf16) rows in one
//! load of sixteen bytes. So matrices are stored in that order, already rounded, and as many
//! columns at a time as the streams have. A kernel's loads are then contiguous. For f32 the
//! remainder of rounding to TF32 is stored too, at an offset of the number of parameters.

use super::device::Precision;
use crate::parameters::{Parameters, Region};

/// No copy.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Position of entry (k, n) of a matrix `[rows, columns]` in packed order, `wide` columns at a
/// time.
fn packed(precision: Precision, [rows, columns]: [usize; 2], wide: usize, k: usize, n: usize) -> usize {
    let (first, n) = (n / wide * wide, n % wide);
    let across = wide.min(columns - first) / 16;
    let (panel, tile, g) = (n / 16, n % 16 / 8, n % 8);
    let steps = rows / if precision == Precision::Bf16 { 16 } else { 8 };
    let before = steps * (first / 16);
    let place = |step: usize, t: usize, which: usize| {
        ((before + step * across + panel) * 32 + g * 4 + t) * 4 + tile * 2 + which
    };
    match precision {
        Precision::F32 | Precision::Tf32 => place(k / 8, k % 4, k % 8 / 4),
        Precision::Bf16 => 2 * place(k / 16, k % 8 / 2, k % 16 / 8) + k % 2,
    }
}

/// For every entry of the flat array the places of its two copies, forward and backward, counted in
/// numbers of the copies' size.
pub(crate) fn places(layout: &Parameters, wide: usize, precision: Precision) -> Vec<[u32; 2]> {
    let mut places: Vec<[u32; 2]> = (0..layout.size() as u32).map(|at| [NOWHERE, at]).collect();
    // The head multiplies in f32 whatever the precision is.
    let head = layout.head.first().map_or(usize::MAX, |affine| affine.weight.offset);
    let per_word = if precision == Precision::Bf16 { 2 } else { 1 };
    for &Region { offset, rows, columns } in &layout.transposed {
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            places[offset + row * columns + column] = match precision {
                _ if offset >= head => [NOWHERE, (offset + column * rows + row) as u32],
                _ => [
                    (per_word * offset + packed(precision, [rows, columns], wide, row, column)) as u32,
                    (per_word * offset + packed(precision, [columns, rows], wide, column, row)) as u32,
                ],
            };
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Channels, Network};

    #[test]
    fn every_entry_of_a_matrix_has_places_of_its_own() {
        for precision in Precision::ALL {
            for (rows, columns) in [(16, 48), (80, 240), (64, 128), (64, 80)] {
                let mut seen = vec![false; rows * columns];
                for (k, n) in (0..rows).flat_map(|k| (0..columns).map(move |n| (k, n))) {
                    assert!(!std::mem::replace(&mut seen[packed(precision, [rows, columns], 64, k, n)], true));
                }
            }
        }
    }

    #[test]
    fn copies_of_different_parameters_do_not_overlap() {
        let network = Network { edge_stream: true, head: vec![8, 3], ..Network::new(Channels::new(16, 2), 2) };
        let layout = Parameters::new(&network);
        for precision in Precision::ALL {
            // In bf16 two packed numbers share a word with nothing else.
            let bytes = |place: u32, packed: bool| match (precision, packed) {
                (Precision::Bf16, true) => 2 * place as usize..2 * place as usize + 2,
                _ => 4 * place as usize..4 * place as usize + 4,
            };
            let mut seen = vec![false; 4 * layout.size()];
            for [forward, backward] in places(&layout, 16, precision) {
                for byte in bytes(backward, forward != NOWHERE) {
                    assert!(!std::mem::replace(&mut seen[byte], true), "{precision:?}");
                }
            }
        }
    }
}

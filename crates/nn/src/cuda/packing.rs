//! Where copies of parameters lie for the kernels' products.
//!
//! On tensor cores a lane takes its share of sixteen columns and 8 (TF32) or 16 (bf16) rows in one load of sixteen bytes, so matrices are stored in that order, already
//! rounded. For f32 what rounding to TF32 leaves is stored too, as many numbers further as there are parameters.

use super::device::Precision;
use crate::parameters::{Parameters, Region};

/// No copy.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Position of entry (k, n) of a matrix `[.., columns]` in packed order.
fn packed(precision: Precision, columns: usize, k: usize, n: usize) -> usize {
    let (panel, tile, g) = (n / 16, n % 16 / 8, n % 8);
    let place =
        |step: usize, t: usize, which: usize| ((step * (columns / 16) + panel) * 32 + g * 4 + t) * 4 + tile * 2 + which;
    match precision {
        Precision::F32 | Precision::Tf32 => place(k / 8, k % 4, k % 8 / 4),
        Precision::Bf16 => 2 * place(k / 16, k % 8 / 2, k % 16 / 8) + k % 2,
    }
}

/// For every entry of the flat array the places of its two copies, forward and backward, counted in numbers of the copies' size.
pub(crate) fn places(layout: &Parameters, precision: Precision) -> Vec<[u32; 2]> {
    let mut places: Vec<[u32; 2]> = (0..layout.size() as u32).map(|at| [NOWHERE, at]).collect();
    // The head multiplies in f32 whatever the precision is.
    let head = layout.head.first().map_or(usize::MAX, |affine| affine.weight.offset);
    let per_word = if precision == Precision::Bf16 { 2 } else { 1 };
    for &Region { offset, rows, columns } in &layout.transposed {
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            places[offset + row * columns + column] = match precision {
                _ if offset >= head => [NOWHERE, (offset + column * rows + row) as u32],
                _ => [
                    (per_word * offset + packed(precision, columns, row, column)) as u32,
                    (per_word * offset + packed(precision, rows, column, row)) as u32,
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
            for (rows, columns) in [(16, 48), (80, 240), (64, 128)] {
                let mut seen = vec![false; rows * columns];
                for (k, n) in (0..rows).flat_map(|k| (0..columns).map(move |n| (k, n))) {
                    assert!(!std::mem::replace(&mut seen[packed(precision, columns, k, n)], true));
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
            for [forward, backward] in places(&layout, precision) {
                for byte in bytes(backward, forward != NOWHERE) {
                    assert!(!std::mem::replace(&mut seen[byte], true), "{precision:?}");
                }
            }
        }
    }
}

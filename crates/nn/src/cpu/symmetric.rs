//! One representation for an edge and its reverse: both become the mean of the two. The operation
//! is its own adjoint.

use std::ops::Range;

use crate::real::Real;

/// Averages the rows of edges with those of their reverses, in place. `rows` holds the edges
/// `span`, among which all reverses lie.
pub(crate) fn average<T: Real>(mirror: &[u32], span: Range<usize>, rows: &mut [T]) {
    let width = rows.len().checked_div(span.len()).unwrap_or(0);
    let half = T::from_f64(0.5);
    for edge in span.clone() {
        let other = mirror[edge] as usize;
        if other > edge {
            let (front, back) = rows.split_at_mut((other - span.start) * width);
            let a = &mut front[(edge - span.start) * width..][..width];
            for (a, b) in a.iter_mut().zip(&mut back[..width]) {
                *a = (*a + *b) * half;
                *b = *a;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_get_the_mean_and_single_edges_stay() {
        // Edges 10..14 of a batch: 10 and 13 are each other's reverse.
        let mut mirror: Vec<u32> = (0..14).collect();
        mirror.swap(10, 13);
        let mut rows = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0f64];
        average(&mirror, 10..14, &mut rows);
        assert_eq!(rows, [4.0, 5.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0]);
        average::<f64>(&mirror, 3..3, &mut []);
    }
}

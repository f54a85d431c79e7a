//! Shapes and strides over a storage.

/// Most dimensions of a tensor; the weights of a three-dimensional convolution have five.
pub(super) const MAX_DIMENSIONS: usize = 8;

/// Where the elements of a tensor lie in its storage; every position is inside.
#[derive(Debug)]
pub(super) struct View {
    start: usize,
    /// Length and stride of every dimension, outermost first.
    dimensions: Vec<(usize, usize)>,
    len: usize,
}

impl View {
    /// A view of a storage of `storage` elements.
    ///
    /// # Errors
    /// The mismatch, as part of an error message.
    pub(super) fn new(start: usize, shape: &[usize], strides: &[usize], storage: usize) -> Result<Self, String> {
        if shape.len() != strides.len() {
            return Err(format!("shape {shape:?} has other dimensions than strides {strides:?}"));
        }
        // A dimension of one element never moves, whatever its stride.
        let dimensions = shape.iter().zip(strides).map(|(&n, &stride)| (n, if n > 1 { stride } else { 0 })).collect();
        // Even with a dimension of 0, the product of the others is checked, so that later products
        // cannot overflow.
        let len = shape.iter().try_fold(1usize, |len, &n| len.checked_mul(n.max(1)));
        let len = len.ok_or_else(|| format!("shape {shape:?} has more values than can be counted"))?;
        if shape.contains(&0) {
            return Ok(Self { start, dimensions, len: 0 });
        }
        let last =
            dimensions.iter().try_fold(start, |last, &(n, stride)| last.checked_add((n - 1).checked_mul(stride)?));
        match last {
            Some(last) if last < storage => Ok(Self { start, dimensions, len }),
            _ => Err(format!(
                "shape {shape:?} with strides {strides:?} from value {start} on exceeds its storage of {storage} values"
            )),
        }
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Calls `visit` with the position of each element, the last dimension running fastest.
    pub(super) fn for_each(&self, mut visit: impl FnMut(usize)) {
        let mut index = vec![0; self.dimensions.len()];
        let mut position = self.start;
        for _ in 0..self.len {
            visit(position);
            for (i, &(n, stride)) in index.iter_mut().zip(&self.dimensions).rev() {
                *i += 1;
                if *i < n {
                    position += stride;
                    break;
                }
                *i = 0;
                position -= (n - 1) * stride;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(view: &View) -> Vec<usize> {
        let mut positions = Vec::new();
        view.for_each(|p| positions.push(p));
        positions
    }

    #[test]
    fn positions_follow_the_strides() {
        assert_eq!(positions(&View::new(5, &[], &[], 6).unwrap()), [5]);
        assert_eq!(positions(&View::new(1, &[3, 2], &[1, 3], 7).unwrap()), [1, 4, 2, 5, 3, 6]);
        assert_eq!(positions(&View::new(0, &[2, 1, 2], &[2, usize::MAX, 1], 4).unwrap()), [0, 1, 2, 3]);
        assert_eq!(positions(&View::new(3, &[4], &[0], 4).unwrap()), [3; 4]);
        assert!(positions(&View::new(usize::MAX, &[usize::MAX, 0, 1], &[7; 3], 0).unwrap()).is_empty());
    }

    #[test]
    fn no_position_is_outside() {
        for (start, shape, strides, storage) in [
            (0, vec![], vec![], 0),
            (4, vec![], vec![], 4),
            (0, vec![2, 3], vec![3, 1], 5),
            (usize::MAX, vec![2], vec![1], usize::MAX),
            (0, vec![2, usize::MAX], vec![0, 0], 9),
            (0, vec![usize::MAX, 2, 0], vec![0, 0, 0], 9),
            (0, vec![3], vec![usize::MAX], 9),
            (0, vec![2, 3], vec![1], 9),
        ] {
            assert!(View::new(start, &shape, &strides, storage).is_err(), "{start} {shape:?} {strides:?} {storage}");
        }
    }
}

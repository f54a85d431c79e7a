//! Mean and deviation over seeds.

/// Mean and sample standard deviation of `values`; the deviation of a single value is 0.
///
/// ```
/// use graph_transformer_reproduce::mean_and_deviation;
///
/// assert_eq!(mean_and_deviation(&[1.0, 3.0]), (2.0, 2f64.sqrt()));
/// assert_eq!(mean_and_deviation(&[5.0]), (5.0, 0.0));
/// ```
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}

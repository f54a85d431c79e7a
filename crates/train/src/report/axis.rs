//! Scales and ticks.

/// Where values lie between the two ends of an axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    log: bool,
    pub(super) ticks: Vec<f64>,
}

/// The smallest of 1, 2, 5, 10, … times a power of ten that is not below a size.
fn round_step(size: f64) -> f64 {
    let power = 10f64.powf(size.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|m| m * power).find(|step| *step >= size * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

fn multiples(step: f64, from: f64, to: f64) -> Vec<f64> {
    let (first, last) = ((from / step - 1e-9).ceil() as i64, (to / step + 1e-9).floor() as i64);
    (first..=last).map(|at| at as f64 * step).collect()
}

impl Axis {
    /// From a tick below all values to one above.
    pub(super) fn linear(min: f64, max: f64) -> Self {
        // If all values agree, the axis is a neighbourhood with the value in the middle.
        let pad = if max - min > 1e-9 * max.abs() { 0.0 } else { (0.05 * max.abs()).max(1e-6) };
        let (min, max) = (min - pad, max + pad);
        let step = round_step((max - min) / 5.0);
        let (from, to) = ((min / step + 1e-9).floor() * step, (max / step - 1e-9).ceil() * step);
        Self { from, to, log: false, ticks: multiples(step, from, to) }
    }

    /// From 1 to the last epoch, ticks at whole ones.
    pub(super) fn epochs(last: usize) -> Self {
        if last <= 1 {
            return Self { from: 0.5, to: 1.5, log: false, ticks: vec![1.0] };
        }
        let ticks = multiples(round_step(last as f64 / 6.0).max(1.0), 1.0, last as f64);
        Self { from: 1.0, to: last as f64, log: false, ticks }
    }

    /// Powers of ten for positive values; also 2 and 5 times those where they lie close together.
    pub(super) fn log(min: f64, max: f64) -> Self {
        let (low, high) = (min.log10().floor() as i32, max.log10().ceil() as i32);
        let factors: &[f64] = if max / min < 300.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = ((high - low) / 7 + 1) as usize;
        let power = |exponent: i32| 10f64.powi(exponent);
        let all =
            (low - 1..=high + every as i32).step_by(every).flat_map(|e| factors.iter().map(move |f| f * power(e)));
        let all: Vec<f64> = all.collect();
        // A single value lies between two ticks, others may lie on one.
        let within = if max > min { 1e-9 } else { -1e-9 };
        let first = all.iter().rposition(|tick| *tick < min * (1.0 + within)).unwrap_or(0);
        let last = all.iter().position(|tick| *tick > max * (1.0 - within)).unwrap_or(all.len() - 1);
        let ticks = all[first..=last].to_vec();
        Self { from: all[first], to: all[last], log: true, ticks }
    }

    /// From 0 at the beginning to 1 at the end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let place = |v: f64| if self.log { v.log10() } else { v };
        (place(value) - place(self.from)) / (place(self.to) - place(self.from))
    }

    /// The text at a tick.
    pub(super) fn label(&self, tick: f64) -> String {
        let largest = self.from.abs().max(self.to.abs());
        let step = if self.ticks.len() > 1 { self.ticks[1] - self.ticks[0] } else { 1.0 };
        let text = match tick.abs() {
            0.0 => "0".into(),
            size if self.log && (1e-2..1e4).contains(&size) => format!("{}", (size * 1e6).round() / 1e6),
            _ if self.log => format!("{tick:.0e}"),
            _ if !(1e-3..1e5).contains(&largest) => format!("{}e{}", trimmed(tick, largest), largest.log10().floor()),
            _ => format!("{tick:.*}", (-(step * 1.001).log10().floor()).max(0.0) as usize),
        };
        text.replace('-', "−")
    }
}

/// A number as a multiple of the power of ten of the largest.
fn trimmed(value: f64, largest: f64) -> String {
    let text = format!("{:.2}", value / 10f64.powf(largest.log10().floor()));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks.iter().map(|tick| axis.label(*tick)).collect()
    }

    #[test]
    fn ticks_are_round_and_enclose_the_values() {
        assert_eq!(labels(&Axis::linear(0.21, 0.78)), ["0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(labels(&Axis::linear(-3.0, 9.0)), ["−5", "0", "5", "10"]);
        assert_eq!(labels(&Axis::linear(120_000.0, 480_000.0)), ["1e5", "2e5", "3e5", "4e5", "5e5"]);
        assert_eq!(labels(&Axis::linear(2.0, 2.0)), ["1.90", "1.95", "2.00", "2.05", "2.10"]);
        assert_eq!(labels(&Axis::epochs(246)), ["50", "100", "150", "200"]);
        assert_eq!(labels(&Axis::epochs(3)), ["1", "2", "3"]);
        assert_eq!(labels(&Axis::epochs(1)), ["1"]);
        assert_eq!(labels(&Axis::log(1e-6, 7e-4)), ["1e−6", "1e−5", "1e−4", "1e−3"]);
        assert_eq!(labels(&Axis::log(1e-3, 1e-3)), ["5e−4", "1e−3", "2e−3"]);
    }

    #[test]
    fn every_value_lies_within_its_axis() {
        let within = |at: f64| (-1e-9..=1.0 + 1e-9).contains(&at);
        for (min, max) in [(0.1, 0.3), (-1e-9, 1e-9), (0.0, 0.0), (1e30, 2e30), (-42.03, 3.8), (99.999, 100.0)] {
            let axis = Axis::linear(min, max);
            assert!(within(axis.at(min)) && within(axis.at(max)), "{axis:?}");
            assert!((2..=12).contains(&axis.ticks.len()), "{axis:?}");
        }
        for (min, max) in [(1e-30, 1e30), (0.5, 0.6), (1e-6, 7e-4), (3.0, 3.0)] {
            let axis = Axis::log(min, max);
            assert!(within(axis.at(min)) && within(axis.at(max)), "{axis:?}");
            assert!((2..=12).contains(&axis.ticks.len()), "{axis:?}");
        }
    }
}

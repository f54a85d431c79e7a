//! A small data set, and what a training on it leaves.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// A few dozen small rings with a chord.
pub fn graphs() -> String {
    let mut random = Random(3);
    let graph = |_| {
        let nodes = 4 + random.below(6);
        let kinds: Vec<String> = (0..nodes).map(|_| format!("[{}]", random.below(3))).collect();
        let mut ends: Vec<(usize, usize)> = (0..nodes).map(|v| (v, (v + 1) % nodes)).collect();
        ends.push((0, nodes / 2));
        let list = |first: fn(&(usize, usize)) -> usize, second: fn(&(usize, usize)) -> usize| {
            let all: Vec<String> =
                ends.iter().map(first).chain(ends.iter().map(second)).map(|v| v.to_string()).collect();
            all.join(", ")
        };
        let (src, dst) = (list(|e| e.0, |e| e.1), list(|e| e.1, |e| e.0));
        let y = nodes as f64 / 4.0 + random.share();
        format!("{{\"node_feat\": [{}], \"edge_index\": [[{src}], [{dst}]], \"y\": [{y:.3}]}}\n", kinds.join(", "))
    };
    (0..40).map(graph).collect()
}

/// The files of a run, without times and durations.
#[derive(PartialEq)]
pub struct Left {
    pub model: Vec<u8>,
    pub best: Vec<u8>,
    pub metrics: Vec<Value>,
}

impl Left {
    pub fn in_folder(run: &Path) -> Self {
        let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        let record = |line: &str| {
            let mut record: Value = serde_json::from_str(line).unwrap();
            for key in ["seconds", "train_seconds", "time"] {
                assert!(record.as_object_mut().unwrap().remove(key).is_some());
            }
            record
        };
        Self {
            model: fs::read(run.join("model.safetensors")).unwrap(),
            best: fs::read(run.join("best.safetensors")).unwrap(),
            metrics: text.lines().map(record).collect(),
        }
    }

    pub fn assert_same(&self, run: &Path, story: &str) {
        let other = Self::in_folder(run);
        assert!(self.metrics == other.metrics, "metrics differ; {story}");
        assert!(self.model == other.model, "model.safetensors differs; {story}");
        assert!(self.best == other.best, "best.safetensors differs; {story}");
        let partial = fs::read_dir(run).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        assert_eq!(partial.filter(|name| name.ends_with(".partial")).count(), 0, "half-written files; {story}");
    }
}

/// Numbers that are the same in every test run (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.share() * limit as f64) as usize
    }
}

//! Driver calls of every option of a network: the problems of `gt check`, recorded without a GPU.
//!
//! `crates/models/tests/cuda_launches.rs` has the calls of the presets.
#![cfg(target_os = "linux")]

use std::path::Path;

use graph_transformer_nn::cuda::{CudaDevice, Precision};
use graph_transformer_nn::{CheckLine, check};
use gt_cuda_recorder::{Recorder, compare};

#[test]
fn launches_of_all_options_are_those_on_file() {
    let mut lines = String::new();
    let recorder = Recorder::start();
    let device = CudaDevice::open(0).unwrap();
    let record = |CheckLine { problem, .. }| {
        let recording = recorder.take();
        recording.keep(&problem.replace('/', "-"));
        assert_eq!(recording.lines_of("misuse").next(), None, "{problem}");
        lines += &format!("{} {problem}\n", recording.digest());
    };
    check(Some(&device), Precision::F32, None, record).unwrap();
    drop(device);
    assert_eq!(recorder.held(), "");
    compare(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cuda_launches.txt"), &lines);
}

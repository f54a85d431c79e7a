//! Devices that exist, and error messages for devices that do not.

mod support;

use gt_nn::cuda::{CudaDevice, CudaError};
use gt_testing::{Resource, skip};
use support::Place;

fn has_driver() -> bool {
    !matches!(CudaDevice::open(0), Err(CudaError::NoDriver))
}

#[test]
fn the_cpu_computes_right_and_leaves_a_margin_for_other_orders_of_sums() {
    let lines = Place::new().done("check --device cpu --json");
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 36, "problems");
    for line in lines {
        assert_eq!((&line["good"], &line["device"]), (&true.into(), &"cpu".into()), "{line}");
        let (gradients, tolerance) = (line["gradients"].as_f64().unwrap(), line["tolerance"].as_f64().unwrap());
        assert!(gradients > 0.0, "nothing was compared: {line}");
        assert!(gradients < 0.5 * tolerance, "{line}");
    }
}

#[test]
fn without_a_driver_cuda_is_refused_and_auto_takes_the_cpu() {
    if has_driver() {
        return skip(Resource::NoCuda, "there is a CUDA driver on this machine");
    }
    let place = Place::new();
    let no_driver = format!("error: {}\n", CudaError::NoDriver);
    assert_eq!(place.refused("check --device cuda"), no_driver);
    assert_eq!(place.refused("bench --device cuda:1 --set zinc"), no_driver);
    for command in ["check --precision bf16", "bench --precision bf16 --set zinc --steps 1"] {
        let complaint = place.refused(command);
        assert!(complaint.contains("--precision bf16"), "{complaint}");
    }
    place.write("mine.jsonl", &mine());
    let short = "--set train.epochs=1 --set model.layers=1 --set model.width=8 --set model.heads=2";
    let complaint = place.refused(&format!("train --data mine.jsonl --device cuda {short} --out run"));
    assert!(complaint.ends_with(&no_driver), "{complaint}");
    let complaint = place.refused(&format!("train --data mine.jsonl --precision tf32 {short} --out run"));
    assert!(complaint.contains("--precision tf32"), "{complaint}");
    let output = place.gt(&format!("train --data mine.jsonl --device auto {short} --out run"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("threads of the CPU"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("Finished: all epochs are done."), "{output:?}");
    for command in ["eval run --split train", "predict run --data mine.jsonl --out predicted.csv"] {
        assert_eq!(place.refused(&format!("{command} --device cuda")), no_driver);
        let complaint = place.refused(&format!("{command} --device auto --precision bf16"));
        assert!(complaint.contains("--precision bf16"), "{complaint}");
        assert_eq!(place.done(&format!("{command} --device auto --json")), place.done(&format!("{command} --json")));
    }
}

#[test]
fn devices_that_do_not_exist_are_named() {
    let complaint = Place::new().refused("check --device tpu");
    assert!(complaint.contains("devices are auto, cpu, cuda and cuda:N"), "{complaint}");
    let complaint = Place::new().refused("check --device cuda:x");
    assert!(complaint.contains("`x` is no number of a device"), "{complaint}");
}

/// Twenty small graphs.
fn mine() -> String {
    let graph = |i: usize| {
        format!(
            "{{\"num_nodes\": 2, \"node_feat\": [[{}], [1]], \"edge_index\": [[0, 1], [1, 0]], \"y\": [{i}.5]}}\n",
            i % 3
        )
    };
    (0..20).map(graph).collect()
}

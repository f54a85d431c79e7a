//! The program on machines whose GPU, driver or compiler cannot be used, without a GPU.
//!
//! The program loads the stand-ins of `cuda-recorder`. Kernels compute nothing.
#![cfg(target_os = "linux")]

mod support;

use std::process::{Command, Output};

use gt_cuda_recorder::{ChildMachine, Failure};
use gt_nn::cuda::CudaError;
use support::Place;

/// Results of the driver.
const OUT_OF_MEMORY: i32 = 2;
const NO_DEVICE: i32 = 100;
const UNSUPPORTED_VERSION: i32 = 222;
const LAUNCH_FAILED: i32 = 719;

const TRAIN: &str = "train --data mine.jsonl --set train.epochs=2 --set train.checkpoint_seconds=0 \
                     --set train.batch=4 --set model.layers=1 --set model.width=8 --set model.heads=2";

/// A folder with a data set of twenty small graphs.
fn place() -> Place {
    let place = Place::new();
    let graph = |i: usize| {
        let kind = i % 3;
        format!(
            "{{\"num_nodes\": 2, \"node_feat\": [[{kind}], [1]], \"edge_index\": [[0, 1], [1, 0]], \"y\": [{i}.5]}}\n"
        )
    };
    place.write("mine.jsonl", &(0..20).map(graph).collect::<String>());
    place
}

/// Runs `gt` on a machine, with no kernels in the cache.
fn gt(place: &Place, machine: &ChildMachine, line: &str) -> Output {
    let _ = std::fs::remove_dir_all(place.path("cache"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_gt"));
    command.args(line.split_whitespace()).current_dir(&place.0).env("GT_CACHE", place.path("cache"));
    machine.prepare(&place.path("libraries"), &mut command);
    command.output().unwrap()
}

/// What `gt` prints on standard error before it ends with an exit code.
fn complaint(place: &Place, machine: &ChildMachine, line: &str, code: i32) -> String {
    let output = gt(place, machine, line);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "gt {line}: {text}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

fn failure(function: &'static str, nth: u64, error: i32, lasting: bool) -> ChildMachine {
    ChildMachine::new().fail(Failure { function, nth, error, lasting })
}

/// Machines, the error with `--device cuda`, and the note with `--device auto`.
fn machines() -> Vec<(ChildMachine, String, Option<String>)> {
    let silent = |machine, error: CudaError| (machine, error.to_string(), None);
    let opening = |machine, error: CudaError| {
        let note = format!("warning: the CPU is used: {error}");
        (machine, error.to_string(), Some(note))
    };
    let later = |machine, error: &str| {
        let note = format!("the CPU is used, not the GPU: {error}");
        (machine, error.to_owned(), Some(note))
    };
    let rejected = "the CUDA driver rejects the kernels (CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
    let too_old = CudaError::TooOld { name: "NVIDIA H200".into(), major: 7, minor: 5 };
    let no_data = failure("cuMemAllocAsync", 1, OUT_OF_MEMORY, false);
    vec![
        silent(ChildMachine::new().without_driver(), CudaError::NoDriver),
        silent(failure("cuDeviceGetCount", 1, NO_DEVICE, false), CudaError::NoDevice { asked: 0, found: 0 }),
        opening(ChildMachine::new().capability(7, 5), too_old),
        opening(ChildMachine::new().driver_version(11_020), CudaError::OldDriver { found: "11.2".into() }),
        later(ChildMachine::new().without_compiler(), &CudaError::NoCompiler.to_string()),
        later(failure("cuModuleLoadData", 1, UNSUPPORTED_VERSION, true), rejected),
        later(no_data, "the GPU has not enough memory for the data set"),
        later(ChildMachine::new().memory(100), "the GPU has not enough memory for the labels"),
        later(ChildMachine::new().memory(50_000), "the GPU has not enough memory for the network"),
    ]
}

#[test]
fn a_gpu_that_cannot_be_used_is_an_error_by_name_and_leaves_the_work_to_the_cpu_with_auto() {
    let place = place();
    for (number, (machine, error, note)) in machines().into_iter().enumerate() {
        let text = complaint(&place, &machine, &format!("{TRAIN} --device cuda --out refused"), 2);
        assert!(text.contains(&format!("error: {error}")), "{text}");
        let text = complaint(&place, &machine, &format!("{TRAIN} --device auto --out run{number}"), 0);
        assert!(text.contains("threads of the CPU"), "{text}");
        match note {
            Some(note) => assert!(text.contains(&note), "{text}\nlacks {note}"),
            None => assert!(!text.contains("the CPU is used"), "{text}"),
        }
        // The rest of the message differs between commands.
        let error = error.split(" for the ").next().unwrap();
        for command in ["eval run0 --split train", "predict run0 --data mine.jsonl --out predicted.csv"] {
            let text = complaint(&place, &machine, &format!("{command} --device cuda"), 2);
            assert!(text.contains(&format!("error: {error}")), "{command}: {text}");
        }
    }
}

#[test]
fn without_a_gpu_that_works_auto_evaluates_and_predicts_as_the_cpu_does() {
    let place = place();
    place.done(&format!("{TRAIN} --device cpu --out run"));
    place.done("predict run --data mine.jsonl --out cpu.csv");
    let on_cpu = place.done("eval run --split train --json");
    let lost = failure("cuGraphLaunch", 1, LAUNCH_FAILED, true);
    for machine in machines().into_iter().map(|(machine, ..)| machine).chain([lost]) {
        complaint(&place, &machine, "predict run --data mine.jsonl --out auto.csv --device auto", 0);
        assert_eq!(std::fs::read(place.path("auto.csv")).unwrap(), std::fs::read(place.path("cpu.csv")).unwrap());
        let output = gt(&place, &machine, "eval run --split train --json --device auto");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), on_cpu);
    }
}

#[test]
fn a_training_whose_gpu_is_lost_names_the_checkpoint_that_resume_continues_from() {
    let place = place();
    let text = complaint(&place, &ChildMachine::new(), &format!("{TRAIN} --device cuda --out whole"), 0);
    assert!(text.contains("epochs on NVIDIA H200, f32"), "{text}");
    // Each epoch has four batches of training, one of validation and one of test.
    let machine = failure("cuGraphLaunch", 8, LAUNCH_FAILED, true);
    let text = complaint(&place, &machine, &format!("{TRAIN} --device cuda --out run"), 2);
    let lost = "the last checkpoint, run/checkpoint/00000001, is kept, and --resume continues from it";
    assert!(text.contains("error: the GPU stopped working (CUDA_ERROR_LAUNCH_FAILED"), "{text}");
    assert!(text.contains("in epoch 2; ") && text.contains(lost), "{text}");
    let output = place.gt("train --resume --out run --device cpu");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("resuming after 1 epochs and 0 batches"), "{text}");
    assert!(text.contains("the run was on NVIDIA H200, f32 and continues on"), "{text}");
}

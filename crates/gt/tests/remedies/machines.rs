//! Messages about the machine.

use std::process::Command;

use crate::fixtures;
use crate::support::{Place, program};

/// Runs `gt` with a changed environment. Returns the exit code, and what it says.
fn gt(place: &Place, line: &str, change: impl Fn(&mut Command)) -> (Option<i32>, String) {
    let mut command = program();
    command.args(line.split_whitespace()).current_dir(&place.0);
    change(&mut command);
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_user_without_a_cache_folder_names_one() {
    let place = Place::new();
    let homeless = |command: &mut Command| {
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    };
    let (code, said) = gt(&place, "cache info", homeless);
    if code == Some(0) {
        // The system knows the user's home folder without HOME.
        return;
    }
    assert!(code == Some(2) && said.contains("GT_CACHE names one"), "{said}");
    let (code, said) = gt(&place, "cache info", |command| {
        homeless(command);
        command.env("GT_CACHE", place.path("cache"));
    });
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn instruction_sets_that_are_named_are_accepted() {
    let place = Place::new();
    fixtures::write(&place);
    let train = |out: &str, set: &str| {
        let line = format!(
            "train --data m.jsonl --out {out} --device cpu --set model.layers=1 --set model.width=8 --set train.epochs=1"
        );
        gt(&place, &line, |command| {
            command.env("GT_SIMD", set);
        })
    };
    let (code, said) = train("first", "sse");
    let known = "it is avx512, avx2 or portable";
    assert!(code == Some(0) && said.contains(known), "{said}");
    let (code, said) = train("second", "portable");
    assert!(code == Some(0) && !said.contains(known), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_gpu_cannot_do_the_cpu_does() {
    use gt_cuda_recorder::ChildMachine;

    let small = "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=1 --set train.batch=4";
    for (data, settings) in [
        ("t_nodes.csv", "--task links"),
        ("m.jsonl", "--set train.accumulate=2"),
        ("m.jsonl", "--set train.skip_bad_steps=true"),
        ("m.jsonl", "--set train.freeze=[\"layers\"]"),
        ("m.jsonl", "--set data.other=true"),
    ] {
        let place = Place::new();
        fixtures::write(&place);
        let machine = ChildMachine::new();
        let train = |device: &str| {
            let line = format!("train --data {data} {settings} {small} --out run --device {device}");
            gt(&place, &line, |command| {
                command.env("GT_CACHE", place.path("cache"));
                machine.prepare(&place.path("libraries"), command);
            })
        };
        let (code, said) = train("cuda");
        assert!(code == Some(2) && said.contains("use --device cpu"), "{settings}: {said}");
        let (code, said) = train("cpu");
        assert_eq!(code, Some(0), "{settings}: {said}");
    }
}

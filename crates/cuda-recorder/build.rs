//! Compiles the stand-ins to shared libraries that carry the names of those they stand in for.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=stand_in");
    if variable("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    let folder = PathBuf::from(variable("OUT_DIR"));
    for (source, library) in [("driver", "libcuda.so"), ("compiler", "libnvrtc.so")] {
        let status = Command::new(variable("RUSTC"))
            .args(["--crate-type=cdylib", "--edition=2024", "-Copt-level=2", "-Cpanic=abort"])
            .arg(format!("--target={}", variable("TARGET")))
            .arg(format!("-Clink-arg=-Wl,-soname,{library}"))
            .arg("-o")
            .arg(folder.join(library))
            .arg(format!("stand_in/{source}.rs"))
            .status()
            .expect("cargo names a compiler that runs");
        assert!(status.success(), "stand_in/{source}.rs does not compile");
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

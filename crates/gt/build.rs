//! Gives the program the commit that it was built from, if there is one, for the records of runs.

use std::process::Command;

fn main() {
    // The commit may change with any source, and with the state of the repository.
    println!("cargo:rerun-if-changed=..");
    if let Some(moves) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={moves}");
    }
    let version = env!("CARGO_PKG_VERSION");
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]);
    let told = commit.map_or(version.to_owned(), |commit| format!("{version} ({commit})"));
    println!("cargo:rustc-env=GT_VERSION={told}");
}

/// Output of git; `None` outside a repository, or without git.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

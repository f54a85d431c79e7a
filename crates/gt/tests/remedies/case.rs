//! A message that names remedies, and each remedy applied.

use std::path::Path;

use crate::fixtures;
use crate::support::Place;

/// Settings of every training.
const SMALL: &str = "--device cpu --set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=1 \
                     --set train.batch=8";

/// A step on the way to a message, or of a remedy.
#[derive(Clone, Copy)]
pub enum Step {
    /// Runs `gt`, which must succeed.
    Gt(&'static str),
    /// Writes a file.
    Write(&'static str, &'static str),
    /// Copies a file.
    Copy(&'static str, &'static str),
    /// Removes a file or a folder.
    Remove(&'static str),
    /// Replaces a text in a file.
    Replace(&'static str, &'static str, &'static str),
}

/// A message with its remedies.
pub struct Case {
    /// Steps that lead to the message.
    pub before: &'static [Step],
    /// The call that prints the message: an error with exit code 2, or a note.
    pub call: &'static str,
    /// A part of the message that names the remedies.
    pub says: &'static str,
    /// Each remedy, applied to the state before the call. The last call prints the message no more.
    pub remedies: &'static [&'static [Step]],
}

/// Applies every remedy of the cases, and reports all that do not work.
#[track_caller]
pub fn apply_all(cases: &[Case], code: i32) {
    let mut faults = Vec::new();
    for case in cases {
        assert!(!case.remedies.is_empty(), "gt {}: there is no remedy", case.call);
        for (number, remedy) in case.remedies.iter().enumerate() {
            if let Err(fault) = apply(case, remedy, code) {
                faults.push(format!("gt {}\n  remedy {}: {fault}", case.call, number + 1));
            }
        }
    }
    assert!(faults.is_empty(), "{} remedies do not work:\n{}", faults.len(), faults.join("\n"));
}

fn apply(case: &Case, remedy: &[Step], code: i32) -> Result<(), String> {
    let place = Place::new();
    fixtures::write(&place);
    for step in case.before {
        take(&place, step)?;
    }
    let (found, said) = call(&place, case.call);
    if found != Some(code) || !said.contains(case.says) {
        return Err(format!("exit code {found:?}, expected {code}; it says not \"{}\" but:\n{said}", case.says));
    }
    let mut last = String::new();
    for step in remedy {
        last = take(&place, step)?;
    }
    match last.contains(case.says) {
        true => Err(format!("the message is still there:\n{last}")),
        false => Ok(()),
    }
}

/// Takes a step, and returns what `gt` says.
fn take(place: &Place, step: &Step) -> Result<String, String> {
    match *step {
        Step::Gt(line) => {
            let (code, said) = call(place, line);
            return if code == Some(0) { Ok(said) } else { Err(format!("gt {line}: {said}")) };
        }
        Step::Write(name, text) => place.write(name, text),
        Step::Copy(from, to) => {
            std::fs::copy(place.path(from), place.path(to)).unwrap();
        }
        Step::Remove(name) => remove(&place.path(name)),
        Step::Replace(name, from, to) => {
            let text = std::fs::read_to_string(place.path(name)).unwrap();
            assert!(text.contains(from), "{name} has no {from}: {text}");
            place.write(name, &text.replace(from, to));
        }
    }
    Ok(String::new())
}

fn remove(path: &Path) {
    if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
}

/// Exit code and standard error of a call. Trainings are small.
fn call(place: &Place, line: &str) -> (Option<i32>, String) {
    let trains = line.starts_with("train ") && !line.contains("--resume");
    let output = place.gt(&if trains { format!("{line} {SMALL}") } else { line.to_owned() });
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains("panicked"), "gt {line}: {said}");
    (output.status.code(), said)
}

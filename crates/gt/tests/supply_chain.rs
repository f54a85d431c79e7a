//! The rules of `deny.toml`: licences, sources and duplicates of the dependencies. cargo-deny
//! checks the same rules where it is installed; this test needs nothing but cargo.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rules() -> toml::Table {
    toml::from_str(&std::fs::read_to_string(root().join("deny.toml")).unwrap()).unwrap()
}

fn texts(list: &toml::Value) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The packages of the registry that are built for Linux.
fn packages() -> Vec<Value> {
    let arguments = ["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", TARGET];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let used: BTreeSet<&str> = nodes.iter().map(|node| node["id"].as_str().unwrap()).collect();
    let all = metadata["packages"].as_array().unwrap().iter();
    let packages: Vec<Value> = all
        .filter(|package| used.contains(package["id"].as_str().unwrap()) && !package["source"].is_null())
        .cloned()
        .collect();
    assert!(packages.len() > 100, "{} packages", packages.len());
    packages
}

fn name(package: &Value) -> String {
    format!("{}@{}", package["name"].as_str().unwrap(), package["version"].as_str().unwrap())
}

/// Whether allowed licences satisfy an expression such as `(MIT OR Apache-2.0) AND ISC`. Older
/// packages write `/` for OR.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.trim().replace('/', " OR ");
    if let Some(rest) = expression.strip_prefix('(') {
        let (inner, rest) = rest.split_once(')').expect("a parenthesis is closed");
        let inner = is_allowed(inner, allowed);
        return match rest.trim().split_once(' ') {
            None => inner,
            Some(("AND", rest)) => inner && is_allowed(rest, allowed),
            Some(("OR", rest)) => inner || is_allowed(rest, allowed),
            Some(_) => panic!("{expression}"),
        };
    }
    if let Some((first, rest)) = expression.split_once(" OR ") {
        return is_allowed(first, allowed) || is_allowed(rest, allowed);
    }
    if let Some((first, rest)) = expression.split_once(" AND ") {
        return is_allowed(first, allowed) && is_allowed(rest, allowed);
    }
    allowed.contains(&*expression)
}

#[test]
fn every_licence_is_allowed_and_every_allowed_one_is_needed() {
    let allowed = texts(&rules()["licenses"]["allow"]);
    let packages = packages();
    let licence = |package: &Value| package["license"].as_str().unwrap_or("no licence").to_owned();
    let wrong = |allowed: &BTreeSet<String>| -> Vec<String> {
        let wrong = packages.iter().filter(|package| !is_allowed(&licence(package), allowed));
        wrong.map(|package| format!("{}: {}", name(package), licence(package))).collect()
    };
    assert_eq!(wrong(&allowed), [""; 0]);
    for one in &allowed {
        let others = allowed.iter().filter(|other| *other != one).cloned().collect();
        assert!(!wrong(&others).is_empty() || one == "Apache-2.0", "nothing needs {one}");
    }
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND GPL-2.0", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("GPL-3.0/MIT", true),
        ("no licence", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn every_package_comes_from_the_registry() {
    let allowed = texts(&rules()["sources"]["allow-registry"]);
    let lock: toml::Table = toml::from_str(&std::fs::read_to_string(root().join("Cargo.lock")).unwrap()).unwrap();
    for package in lock["package"].as_array().unwrap() {
        let (name, source) = (package["name"].as_str().unwrap(), package.get("source").and_then(|s| s.as_str()));
        match source {
            None => assert!(name.starts_with("graph-transformer"), "{name} is no package of the workspace"),
            Some(source) => {
                let registry = source.strip_prefix("registry+");
                assert!(registry.is_some_and(|registry| allowed.contains(registry)), "{name}: {source}");
                assert!(package.get("checksum").is_some(), "{name} has no checksum");
            }
        }
    }
}

#[test]
fn every_second_version_is_known() {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages() {
        versions.entry(package["name"].as_str().unwrap().into()).or_default().push(name(&package));
    }
    let rules = rules();
    let entry = |entry: &toml::Value| entry["crate"].as_str().unwrap().to_owned();
    let skipped: BTreeSet<String> = rules["bans"]["skip"].as_array().unwrap().iter().map(entry).collect();
    let several: Vec<&Vec<String>> = versions.values().filter(|all| all.len() > 1).collect();
    for all in &several {
        let new = all.iter().filter(|name| !skipped.contains(*name)).count();
        assert!(new <= 1, "{all:?}: list the older versions in deny.toml, or make do with one");
    }
    let needless = skipped.iter().filter(|name| !several.iter().any(|all| all.contains(*name)));
    assert_eq!(needless.collect::<Vec<_>>(), [""; 0], "deny.toml skips versions that are not there");
}

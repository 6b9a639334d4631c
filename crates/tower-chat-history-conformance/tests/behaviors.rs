//! The lists of the conformance suites have every function of their modules. It is not a unit test, because the unit
//! tests would then be compiled with all behaviors.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs, path::Path};

use tower_chat_history_conformance::store::{Capability, behaviors};

/// Returns the functions that begin so in the modules of a folder, after the names of their modules.
fn functions(folder: &str, begin: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
        let path = file.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap();
        for line in fs::read_to_string(&path).unwrap().lines() {
            if let Some((name, parameters)) = line.strip_prefix(begin).and_then(|rest| rest.split_once('('))
                && (parameters.starts_with("fixture") || parameters.starts_with("samples"))
            {
                found.insert(format!("{module}::{name}"));
            }
        }
    }
    found
}

macro_rules! paths {
    ($($module:ident { $($group:ident $needs:tt { $($behavior:ident $([$($also:ident),+])?)+ })+ })+) => {
        [$($($(concat!(stringify!($module), "::", stringify!($behavior))),+),+),+]
    };
}

#[test]
fn every_behavior_is_listed() {
    let mut written = functions("src/store", "pub async fn ");
    assert!(written.remove("list::all"));
    let listed = tower_chat_history_conformance::__conformance_list!([paths]);
    assert_eq!(BTreeSet::from(listed.map(str::to_owned)), written);
    assert_eq!(listed.len(), written.len(), "a behavior is listed twice");
    let names: BTreeSet<_> = behaviors().iter().map(|behavior| behavior.name).collect();
    assert_eq!(names.len(), listed.len(), "a name is listed twice");
}

#[test]
fn behaviors_say_what_they_need() {
    let behaviors = behaviors();
    let needs = |name| behaviors.iter().find(|behavior| behavior.name == name).map(|behavior| behavior.needs);
    assert_eq!(needs("append::the_first_append_creates_the_log"), Some(&[] as &[_]));
    assert_eq!(needs("conversation::the_last_exchange_is_taken"), Some(&[Capability::Truncate] as &[_]));
    let both: &[_] = &[Capability::Prune, Capability::Truncate];
    assert_eq!(needs("prune::a_pruned_log_is_truncated"), Some(both));
    let both: &[_] = &[Capability::Fork, Capability::ForkInOneStep];
    assert_eq!(needs("fork::a_repeat_finds_its_copy"), Some(both));
    let both: &[_] = &[Capability::Erase, Capability::Sealed];
    assert_eq!(needs("content::a_listing_counts_encrypted_messages"), Some(both));
}

macro_rules! names {
    ($($group:ident { $($rule:ident)+ })+) => {
        [$($(concat!(stringify!($group), "::", stringify!($rule))),+),+]
    };
}

#[test]
fn every_rule_of_dialects_is_listed() {
    let listed = tower_chat_history_conformance::__dialect_list!([names]);
    assert_eq!(BTreeSet::from(listed.map(str::to_owned)), functions("src/dialect", "pub fn "));
}

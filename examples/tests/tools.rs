//! Tests of the program `tools`.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{path::Path, process::Command};

fn tools(store: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tools"))
        .args(["--store", &format!("sqlite:{}", store.display())])
        .args(arguments)
        .env_remove("OPENAI_API_KEY")
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn parallel_calls_run_and_an_error_is_a_result() {
    let dir = tempfile::tempdir().unwrap();
    let (done, output) = tools(&dir.path().join("tools.db"), &["weather in Oslo, Lima and Atlantis?"]);
    assert!(done && output.contains("Oslo: 12 degrees; Lima: 12 degrees; error: there is no such city"), "{output}");
}

#[test]
fn a_crashed_run_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("tools.db");
    assert_eq!(tools(&store, &["--crash", "weather in Oslo and Quito?"]), (false, String::new()));
    let (done, output) = tools(&store, &[]);
    assert!(done && output.contains("Oslo: 12 degrees; Quito: 15 degrees"), "{output}");
    assert!(!tools(&store, &[]).0, "nothing is left to resume");
}

#[test]
fn a_new_question_abandons_open_calls() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("tools.db");
    assert!(!tools(&store, &["--crash", "weather in Oslo?"]).0);
    let (done, output) = tools(&store, &["weather in Lima?"]);
    assert!(done && output.contains("Lima") && !output.contains("Oslo"), "{output}");
}

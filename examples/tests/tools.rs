//! The agent, as a person runs it.

#![allow(clippy::unwrap_used)] // A test may.

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
fn parallel_calls_are_run_and_a_failed_tool_is_a_result() {
    let dir = tempfile::tempdir().unwrap();
    let (done, said) = tools(&dir.path().join("tools.db"), &["weather in Oslo, Lima and Atlantis?"]);
    assert!(done && said.contains("Oslo: 12 degrees; Lima: 12 degrees; error: there is no such city"), "{said}");
}

#[test]
fn a_crash_in_the_middle_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("tools.db");
    assert_eq!(tools(&store, &["--crash", "weather in Oslo and Quito?"]), (false, String::new()));
    let (done, said) = tools(&store, &[]);
    assert!(done && said.contains("Oslo: 12 degrees; Quito: 15 degrees"), "{said}");
    assert!(!tools(&store, &[]).0, "there is nothing left to resume");
}

#[test]
fn a_new_question_gives_open_calls_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("tools.db");
    assert!(!tools(&store, &["--crash", "weather in Oslo?"]).0);
    let (done, said) = tools(&store, &["weather in Lima?"]);
    assert!(done && said.contains("Lima") && !said.contains("Oslo"), "{said}");
}

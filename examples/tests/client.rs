//! Tests of the program `client`.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{path::Path, process::Command};

fn client(store: &Path, questions: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_client"))
        .args(["--store", &format!("sqlite:{}", store.display())])
        .args(questions)
        .env_remove("OPENAI_API_KEY")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn existing_client_code_remembers_within_a_run_and_across_runs() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("client.db");
    assert!(client(&store, &[]).lines().nth(1).unwrap().contains("Nemo"));
    assert!(client(&store, &["what is my name?"]).contains("Nemo"));
    assert!(client(&store, &["how many messages did you get?"]).contains('7'), "each message was stored once");
}

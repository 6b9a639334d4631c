//! Tests of the program `tools`.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{path::Path, process::Command};

fn tools(store: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tools"))
        .args(["--store", &format!("sqlite:{}", store.display())])
        .args(arguments)
        .env_remove("OPENAI_API_KEY")
        .env_remove("ANTHROPIC_API_KEY")
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

const ALL: [&[&str]; 2] = [&["--via", "typed"], &["--via", "messages"]];

#[test]
fn parallel_calls_run_and_an_error_is_a_result() {
    for via in ALL {
        let dir = tempfile::tempdir().unwrap();
        let question = [via, &["weather in Oslo, Lima and Atlantis?"]].concat();
        let (done, output) = tools(&dir.path().join("tools.db"), &question);
        let expected = "Oslo: 12 degrees; Lima: 12 degrees; error: there is no such city";
        assert!(done && output.contains(expected), "{via:?}: {output}");
    }
}

#[test]
fn a_crashed_run_is_resumed() {
    for via in ALL {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("tools.db");
        let crash = [via, &["--crash", "weather in Oslo and Quito?"]].concat();
        assert_eq!(tools(&store, &crash), (false, String::new()));
        let (done, output) = tools(&store, via);
        assert!(done && output.contains("Oslo: 12 degrees; Quito: 15 degrees"), "{via:?}: {output}");
        assert!(!tools(&store, via).0, "nothing is left to resume");
    }
}

#[test]
fn a_new_question_abandons_open_calls() {
    for via in ALL {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("tools.db");
        assert!(!tools(&store, &[via, &["--crash", "weather in Oslo?"]].concat()).0);
        let (done, output) = tools(&store, &[via, &["weather in Lima?"]].concat());
        assert!(done && output.contains("Lima") && !output.contains("Oslo"), "{via:?}: {output}");
    }
}

#[test]
fn thinking_is_shown_and_sent_again_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("tools.db");
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tools"))
            .args(["--via", "messages", "--store", &format!("sqlite:{}", store.display())])
            .args(arguments)
            .env_remove("ANTHROPIC_API_KEY")
            .output()
            .unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (_, notes) = run(&["--crash", "weather in Oslo?"]);
    assert!(notes.contains("[thinking: I look up the weather of Oslo.]"), "{notes}");
    // A mock of another process has the same name, so it accepts the signatures of the first one.
    let (answer, _) = run(&[]);
    assert_eq!(answer, "Here is what I found: Oslo: 12 degrees.\n");
    let (answer, _) = run(&["weather in Lima?"]);
    assert_eq!(answer, "Here is what I found: Lima: 12 degrees.\n");
}

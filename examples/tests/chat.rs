//! Tests of the program `chat`.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

fn chat(store: &Path, conversation: &str, lines: &str) -> Output {
    chat_through("typed", store, conversation, lines)
}

fn chat_through(via: &str, store: &Path, conversation: &str, lines: &str) -> Output {
    chat_with(&["--via", via], store, conversation, lines)
}

const ALL: [&str; 4] = ["typed", "client", "messages", "responses"];

fn chat_with(options: &[&str], store: &Path, conversation: &str, lines: &str) -> Output {
    chat_with_bytes(options, store, conversation, lines.as_bytes())
}

fn chat_with_bytes(options: &[&str], store: &Path, conversation: &str, lines: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_chat"))
        .args(["--store", &format!("sqlite:{}", store.display()), "--conversation", conversation])
        .args(options)
        .env_remove("OPENAI_API_KEY")
        .env_remove("ANTHROPIC_API_KEY")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines).unwrap();
    child.wait_with_output().unwrap()
}

fn replies(store: &Path, conversation: &str, lines: &str) -> String {
    replies_through("typed", store, conversation, lines)
}

fn replies_through(via: &str, store: &Path, conversation: &str, lines: &str) -> String {
    let output = chat_through(via, store, conversation, lines);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_name_is_remembered_across_restarts_but_not_across_conversations() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("chat.db");
    for via in ALL {
        let replies = |conversation, lines| replies_through(via, &store, &format!("{via}/{conversation}"), lines);
        let first = replies("a", "my name is Nemo\nwhat is my name?\n");
        assert_eq!(first.lines().count(), 2, "only replies are printed: {first}");
        assert!(first.lines().nth(1).unwrap().contains("Nemo"), "{via}: {first}");
        assert!(replies("a", "what is my name?\n").contains("Nemo"), "{via}");
        assert!(!replies("b", "what is my name?\n").contains("Nemo"), "{via}");
    }
}

#[test]
fn the_mock_model_and_the_missing_key_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for (via, key) in [("client", "OPENAI"), ("messages", "ANTHROPIC"), ("responses", "OPENAI")] {
        let output = chat_through(via, &dir.path().join("chat.db"), via, "");
        let expected = format!("{key}_API_KEY is not set: using a mock model that answers by simple rules.\n");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    }
}

#[test]
fn a_conversation_of_another_format_is_an_error_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("chat.db");
    replies(&store, "a", "my name is Nemo\n");
    let output = chat_through("messages", &store, "a", "what is my name?\n");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("chat_completions"), "{error}");
    assert!(error.contains("or choose another --conversation"), "{error}");
}

#[test]
fn a_line_that_is_not_utf_8_is_an_error_and_the_next_one_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let output = chat_with_bytes(&[], &dir.path().join("chat.db"), "a", b"my name is \xff\nmy name is Nemo\n");
    assert!(!output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Nice to meet you, Nemo!\n");
    assert!(String::from_utf8(output.stderr).unwrap().contains("the line is not UTF-8"));
}

#[test]
fn a_window_that_is_too_small_is_an_error_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let output = chat_with(&["--context", "10"], &dir.path().join("chat.db"), "a", "hi\n");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("choose a larger --context"), "{error}");
}

#[test]
fn a_small_window_has_room_for_a_recalled_message() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--context", "400", "--recall"];
    let talk = "the sea is full of fish, and they swim far and deep\n".repeat(20);
    let lines = format!("my name is Nemo\n{talk}what is my name?\n");
    let output = chat_with(&options, &dir.path().join("chat.db"), "a", &lines);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().last(), Some("Your name is Nemo."), "{said}");
}

#[test]
fn the_key_and_the_base_url_come_from_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("chat.db");
    // No server listens on this port.
    let url = "http://127.0.0.1:9";
    for (via, name) in [("messages", "ANTHROPIC"), ("responses", "OPENAI")] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_chat"))
            .args([
                "--store",
                &format!("sqlite:{}", store.display()),
                "--via",
                via,
                "--model",
                "own",
                "--conversation",
                via,
            ])
            .env(format!("{name}_API_KEY"), "secret")
            .env(format!("{name}_BASE_URL"), url)
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"hi\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.starts_with(&format!("Using own at {url}.\n")), "{error}");
        assert!(!output.status.success() && error.contains("127.0.0.1:9") && !error.contains("secret"), "{error}");
    }
}

#[test]
fn typed_and_client_continue_each_other_s_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("chat.db");
    let through = |via, lines| {
        let output = chat_through(via, &store, "a", lines);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    through("typed", "my name is Nemo\n");
    assert!(through("client", "what is my name?\n").contains("Nemo"));
    let counted = through("typed", "how many messages did you get?\n");
    assert!(counted.contains('6'), "instructions, four messages of the log, and the question: {counted}");
    assert_eq!(
        counted,
        through("client", "/history\n").lines().last().map(|line| line.replace("assistant: ", "") + "\n").unwrap()
    );
}

#[test]
fn a_name_told_120_turns_ago_is_recalled() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("chat.db");
    let talk: String =
        (0..120).map(|turn| format!("chapter {turn}: the sea is full of fish, and they swim far\n")).collect();
    let lines = format!("Hello. My name is Nemo, and I live in a reef.\n{talk}");
    let context = ["--context", "2000"];
    for via in ALL {
        let context = [&context[..], &["--via", via]].concat();
        let recall = [&context[..], &["--recall"]].concat();
        let told = chat_with(&recall, &store, via, &lines);
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        for (options, answer) in [(&context[..], "I do not know your name."), (&recall, "Your name is Nemo.")] {
            let answered = chat_with(options, &store, via, "What is my name?\n");
            assert_eq!(String::from_utf8(answered.stdout).unwrap().trim_end(), answer, "{via}: {options:?}");
        }
    }
}

#[test]
fn a_name_told_in_another_conversation_of_the_user_is_recalled() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("chat.db");
    let lines = format!("Hello. My name is Nemo, and I live in a reef.\n{}", "the sea is full of fish\n".repeat(20));
    assert!(chat_with(&["--recall-parts", "1"], &store, "ann/told", &lines).status.success());
    for (conversation, options, answer) in [
        ("ann/asked", &["--recall-parts", "1"][..], "Your name is Nemo."),
        ("ann/alone", &["--recall"], "I do not know your name."),
        ("anne/asked", &["--recall-parts", "1"], "I do not know your name."),
    ] {
        let answered = chat_with(options, &store, conversation, "What is my name?\n");
        assert_eq!(String::from_utf8(answered.stdout).unwrap().trim_end(), answer, "{conversation}");
    }
}

#[test]
fn a_name_that_has_left_the_window_is_known_only_from_a_summary() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("chat.db");
    let lines = format!("my name is Nemo\n{}", "the sea is full of fish, and they swim far and deep\n".repeat(20));
    for via in ALL {
        for (summarize, answer, note) in [
            (&["--summarize"][..], "Your name is Nemo.", "[summarized: all messages before exchange "),
            (&[], "I do not know your name.", "[left out: "),
        ] {
            let options = [&["--via", via, "--context", "400"], summarize].concat();
            let conversation = format!("{via}{}", summarize.len());
            // A summary made after the last reply is stored before the process ends.
            let first = chat_with(&options, &store, &conversation, &lines);
            let second = chat_with(&options, &store, &conversation, "what is my name?\n");
            assert!(first.status.success() && second.status.success(), "{via}");
            let replies = String::from_utf8(first.stdout).unwrap();
            assert_eq!(replies.lines().count(), 21, "only replies are printed: {replies}");
            assert_eq!(String::from_utf8(second.stdout).unwrap().trim_end(), answer, "{via}");
            let notes = String::from_utf8(first.stderr).unwrap();
            assert!(notes.lines().any(|line| line.starts_with(note)), "{via}: {notes}");
            assert_eq!(notes.contains("ummarized"), !summarize.is_empty(), "{via}: {notes}");
        }
    }
}

#[test]
fn commands_show_delete_and_quit() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("chat.db");
    let shown = replies(&store, "a", "my name is Nemo\n/history\n/delete\nwhat is my name?\n/quit\nnever read\n");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[1], "user: my name is Nemo");
    assert!(lines[2].starts_with("assistant: "), "{shown}");
    assert_eq!(lines.len(), 5, "{shown}");
    assert!(!lines[4].contains("Nemo"), "{shown}");
}

#[test]
fn errors_are_printed() {
    let dir = tempfile::tempdir().unwrap();
    let output = chat(&dir.path().join("missing").join("chat.db"), "a", "hi\n");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("chat: "));
}

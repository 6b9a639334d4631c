//! `list`, `show` and `stats`.

use std::{io::Read as _, process::Stdio};

use tower_chat_history_core::Message;

use crate::support::Place;

#[test]
fn a_list_has_the_conversations_under_the_prefix() {
    let place = Place::filled();
    place.label("acme/user-1/a", "title", "Nemo's\n boat \u{1b}[31m");
    let list = place.run(&["list", "acme/user-1"]).ok();
    let rows: Vec<_> = list.lines().map(str::trim_end).collect();
    assert_eq!(rows.len(), 3, "{list}");
    assert!(rows[0].ends_with("CONVERSATION"), "{list}");
    assert!(rows[1].starts_with("2025-01-01 00:00:02Z          3"), "{list}");
    assert!(rows[1].ends_with("acme/user-1/a  title=Nemo's boat \\u{1b}[31m"), "{list}");
    assert!(rows[2].ends_with("acme/user-1/b"), "{list}");
}

#[test]
fn a_list_continues_at_its_cursor() {
    let place = Place::filled();
    let first = place.run(&["list", "--limit", "3"]);
    let cursor = first.err.split_whitespace().skip_while(|word| *word != "--after").nth(1).unwrap();
    let rest = place.run(&["list", "--after", cursor.trim_end_matches(',')]).ok();
    assert!(rest.lines().count() == 2 && rest.contains("other/user-1"), "{rest}");
}

#[test]
fn the_cursor_is_shown_after_the_conversations() {
    let place = Place::filled();
    // As on a terminal, both outputs go to one place.
    let both = std::fs::File::create(place.path("both")).unwrap();
    let mut list = place.command("chat.db", &["list", "--limit", "3"]);
    list.stdout(both.try_clone().unwrap()).stderr(both);
    assert!(list.status().unwrap().success());
    let shown = std::fs::read_to_string(place.path("both")).unwrap();
    assert!(shown.starts_with("UPDATED") && shown.lines().last().unwrap().starts_with("There are more."), "{shown}");
}

#[test]
fn the_newest_conversations_are_listed_first() {
    let list = Place::filled().run(&["list", "--newest", "--limit", "1"]).ok();
    assert!(list.lines().count() == 2 && list.contains("acme/user-1/a"), "{list}");
}

#[test]
fn a_list_in_json_has_a_line_for_each_conversation() {
    let list = Place::filled().run(&["list", "acme", "--json"]).ok();
    let rows: Vec<serde_json::Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!((&rows[0]["id"], &rows[0]["exchanges"]), (&"acme/user-1/a".into(), &3.into()));
    assert_eq!(Place::filled().run(&["list", "nobody", "--json"]).ok(), "");
}

#[test]
fn a_conversation_is_shown_with_roles_times_and_calls() {
    let place = Place::empty();
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}]}"#;
    let messages = [Message::user("Is it warm?"), Message::from_json(call).unwrap()];
    place.append("a", "1", 1_735_689_600_000, messages);
    place.append("a", "2", 1_735_689_601_000, [Message::tool("call_1", "18 °C"), Message::assistant("Yes.")]);
    let shown = place.run(&["show", "a"]).ok();
    let expected = "\
── 0 · 2025-01-01 00:00:00Z
user
  Is it warm?
assistant
  → weather({\"city\":\"Paris\"}) [call_1]

── 1 · 2025-01-01 00:00:01Z
tool
  ← [call_1] 18 °C
assistant
  Yes.
";
    assert!(shown.starts_with("a\n2 exchanges, ") && shown.ends_with(expected), "{shown}");
}

#[test]
fn stored_texts_cannot_control_the_terminal() {
    let place = Place::empty();
    let hostile = "\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}x\r";
    let call = serde_json::json!({"role": "assistant", "content": hostile, "tool_calls": [
        {"id": hostile, "type": "function", "function": {"name": hostile, "arguments": hostile}},
    ]});
    let name = serde_json::json!({"role": "user", "name": hostile, "content": hostile});
    let messages = [name, call].map(|json| Message::try_from(json).unwrap());
    place.append("a", "1", 1, messages);
    place.label("a", hostile, hostile);
    for args in [&["show", "a"][..], &["show", "a", "--long"], &["list"], &["list", "--json"]] {
        let shown = place.run(args).ok();
        assert!(shown.chars().all(|one| one == '\n' || !one.is_control()), "{args:?}: {shown:?}");
    }
}

#[test]
fn long_conversations_are_shown_from_their_end() {
    let place = Place::filled();
    let shown = place.run(&["show", "acme/user-1/a", "--last", "1"]).ok();
    assert!(shown.contains("(2 earlier exchanges: --all shows") && shown.contains("question 2"), "{shown}");
    assert!(!shown.contains("question 1"), "{shown}");
    assert!(place.run(&["show", "acme/user-1/a", "--all"]).ok().contains("question 0"));
    let from = place.run(&["show", "acme/user-1/a", "--from", "1"]).ok();
    assert!(from.contains("question 1") && !from.contains("question 0"), "{from}");
}

#[test]
fn the_numbers_are_those_of_the_prefix() {
    let place = Place::filled();
    let stats = place.run(&["stats", "acme", "--json"]).json();
    assert_eq!(
        (&stats["stores"]["sqlite"]["conversations"], &stats["stores"]["sqlite"]["exchanges"]),
        (&3.into(), &6.into())
    );
    let stats = place.run(&["stats"]).ok();
    assert!(stats.contains("exchanges") && stats.contains("last updated 2025-01-01 00:00:02Z"), "{stats}");
}

#[test]
fn a_reader_may_close_the_output_early() {
    let place = Place::empty();
    let text = "x".repeat(300_000);
    place.append("a", "1", 1, [Message::user(text)]);
    let mut command = place.command("chat.db", &["export"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 10]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

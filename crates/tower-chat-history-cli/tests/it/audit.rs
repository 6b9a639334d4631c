//! `--audit`

use serde_json::Value;

use crate::support::{Place, Ran};

/// Runs the program with an audit in `audit.jsonl`, for a person named `anna`.
fn run(place: &Place, args: &[&str]) -> Ran {
    let mut command = place.command("chat.db", args);
    command.args(["--audit", "audit.jsonl", "--actor", "anna"]);
    command.output().unwrap().into()
}

/// Returns the lines and removes the file.
fn taken(place: &Place) -> Vec<Value> {
    let text = std::fs::read_to_string(place.path("audit.jsonl")).unwrap();
    std::fs::remove_file(place.path("audit.jsonl")).unwrap();
    assert!(!text.contains("question") && !text.contains("answer"), "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the command, the action and the conversations of each line.
fn summary(lines: &[Value]) -> Vec<String> {
    let text = |line: &Value| {
        let subject = line.get("conversation").or_else(|| line.get("under")).unwrap();
        assert_eq!(line["actor"], "anna");
        assert!(line["at"].as_u64() > Some(1_700_000_000_000), "{line}");
        format!("{} {} {}", line["command"], line["action"], subject).replace('"', "")
    };
    lines.iter().map(text).collect()
}

#[test]
fn each_conversation_that_is_read_has_a_line() {
    let place = Place::filled();
    run(&place, &["show", "acme/user-10"]).ok();
    assert_eq!(summary(&taken(&place)), ["show describe acme/user-10", "show read acme/user-10"]);
    run(&place, &["export", "acme/user-1"]).ok();
    let exported = summary(&taken(&place));
    assert_eq!(exported, ["export list acme/user-1", "export read acme/user-1/a", "export read acme/user-1/b"]);
    run(&place, &["list"]).ok();
    assert_eq!(summary(&taken(&place)), ["list list "]);
}

#[test]
fn each_conversation_that_is_changed_has_a_line() {
    let place = Place::filled();
    let exported = place.run(&["export", "acme/user-1"]).ok();
    run(&place, &["erase", "acme/user-1", "--yes"]).ok();
    let erased = summary(&taken(&place));
    assert_eq!(erased, ["erase bar acme/user-1", "erase erase acme/user-1", "erase count acme/user-1"]);
    let ran = place.run_with("chat.db", &["import", "--audit", "audit.jsonl", "--actor", "anna"], exported.as_bytes());
    ran.ok();
    let imported = summary(&taken(&place));
    let appended: Vec<_> = imported.iter().filter(|line| line.starts_with("import append")).collect();
    assert_eq!(appended, ["import append acme/user-1/a", "import append acme/user-1/b"]);
    run(&place, &["expire", "other", "--idle", "30d", "--yes"]).ok();
    let expired = summary(&taken(&place));
    assert!(expired.contains(&"expire erase other/user-1".into()), "{expired:?}");
}

#[test]
fn lines_are_appended() {
    let place = Place::filled();
    std::fs::write(place.path("audit.jsonl"), "{\"at\":1}\n{\"at\":2").unwrap();
    run(&place, &["list"]).ok();
    let text = std::fs::read_to_string(place.path("audit.jsonl")).unwrap();
    assert!(text.starts_with("{\"at\":1}\n{\"at\":2\n{") && text.ends_with("}\n"), "{text}");
}

#[test]
fn a_failed_call_has_a_line_with_its_error() {
    let place = Place::filled();
    let file = rusqlite::Connection::open(place.path("chat.db")).unwrap();
    assert_eq!(file.execute("UPDATE exchange SET body = '{'", []).unwrap(), 7);
    drop(file);
    assert_eq!(run(&place, &["show", "acme/user-10"]).code, Some(1));
    let lines = taken(&place);
    let errors: Vec<_> = lines.iter().filter_map(|line| line.get("error")).collect();
    assert_eq!(errors, ["corrupt"]);
}

#[test]
fn without_its_audit_a_command_does_nothing() {
    let place = Place::filled();
    std::fs::create_dir(place.path("audit.jsonl")).unwrap();
    let ran = run(&place, &["erase", "--all", "--yes"]);
    assert!(ran.code == Some(1) && ran.out.is_empty() && ran.err.starts_with("chat-history: --audit: "), "{ran:?}");
    assert_eq!(place.run(&["list", "--json"]).ok().lines().count(), 4);
}

/// Each write to this device fails because the disk is full.
#[cfg(target_os = "linux")]
#[test]
fn a_call_whose_line_cannot_be_written_is_not_made() {
    let place = Place::filled();
    let ran = place.run(&["erase", "--all", "--yes", "--audit", "/dev/full"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("the audit did not admit the call") && ran.err.contains("No space left"), "{ran:?}");
    let ran = place.run(&["show", "acme/user-10", "--audit", "/dev/full"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert_eq!(place.run(&["list", "--json"]).ok().lines().count(), 4);
}

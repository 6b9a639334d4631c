//! Wrong command lines, and stores that cannot be opened.

use crate::support::Place;

#[test]
fn errors_are_sentences_with_their_cause() {
    let place = Place::empty();
    let ran = place.run(&["list"]);
    let missing =
        format!("chat-history: the store cannot be opened: there is no file {}\n", place.path("chat.db").display());
    assert_eq!((ran.code, ran.err), (Some(1), missing));
    assert!(!place.path("chat.db").exists(), "no file is created");
    std::fs::write(place.path("chat.db"), "this is no database, but a text of more than a hundred bytes ".repeat(9))
        .unwrap();
    let ran = place.run(&["list"]);
    assert!(ran.code == Some(1) && ran.err.starts_with("chat-history: the store cannot be opened: "), "{ran:?}");
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
}

#[test]
fn a_missing_conversation_is_an_error() {
    let ran = Place::filled().run(&["show", "acme/nobody"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), "chat-history: there is no conversation acme/nobody\n"));
    let ran = Place::filled().run(&["show", "acme/user-1"]);
    assert!(ran.code == Some(1) && ran.err.contains("use `chat-history list acme/user-1`"), "{ran:?}");
}

#[test]
fn files_of_the_store_are_no_outputs() {
    let place = Place::filled();
    let (database, link) = (place.path("chat.db"), place.path("link"));
    std::os::unix::fs::symlink(&database, &link).unwrap();
    let hard_link = place.path("hard-link");
    std::fs::hard_link(&database, &hard_link).unwrap();
    let before = std::fs::read(&database).unwrap();
    for file in [database.clone(), place.path("chat.db-wal"), link, hard_link] {
        let file = file.to_str().unwrap();
        let ran = place.run(&["export", "-o", file]);
        assert_eq!((ran.code, &*ran.err), (Some(1), "chat-history: --output: this is a file of the store\n"), "{file}");
    }
    assert_eq!(std::fs::read(database).unwrap(), before);
}

#[test]
fn a_line_break_in_the_name_of_a_file_is_escaped() {
    let ran = Place::filled().run(&["import", "no\nsuch\u{1b}[2J"]);
    assert!(ran.code == Some(1) && ran.err.starts_with("chat-history: no\\u{a}such\\u{1b}[2J: "), "{ran:?}");
}

#[test]
fn a_mistyped_url_is_not_shown() {
    let ran = Place::filled().run(&["import", "--from", "langchain-redis", "redsi://user:secret@host"]);
    assert!(ran.code == Some(1) && ran.err.contains("redis://") && !ran.err.contains("secret"), "{ran:?}");
}

#[test]
fn a_wrong_argument_is_shown_without_characters_that_a_terminal_obeys() {
    let ran = Place::filled().run(&["show", "a//\u{9b}31m\u{202e}x"]);
    assert!(ran.code == Some(2) && ran.err.contains("\\u{9b}31m\\u{202e}x") && !ran.err.contains('\u{9b}'), "{ran:?}");
}

#[test]
fn wrong_command_lines_have_code_2() {
    let place = Place::filled();
    for args in [
        &["show", "a b"][..],
        &["list", "a//b"],
        &["explain"],
        &["explain", "acme", "last"],
        &["list", "--after", "x"],
        &["expire", "acme", "--yes"],
        &["expire", "--idle", "30d", "--yes"],
        &["expire", "acme", "--idle", "30", "--yes"],
        &["expire", "acme", "--idle", "30d"],
        &["expire", "acme", "--idle", "30d", "--yes", "--dry-run"],
        &["expire", "acme", "--idle", "30d", "--older-than", "30d", "--yes"],
        &["import", "--rename", "a"],
        &["import", "--separator", "/"],
        &["import", "--from", "chat-ml", "--into", "a", "--rename", "b"],
        &["erase", "acme", "--quotes-under", "", "--yes"],
        &["--store", "mysql://u:secret@h", "list"],
        &["forget"],
        &[],
    ] {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{args:?}: {ran:?}");
        assert!(!ran.err.is_empty() && !ran.err.contains("secret"), "{args:?}: {ran:?}");
    }
}

#[test]
fn the_help_lists_the_commands_and_exit_codes() {
    let help = Place::empty().run(&["--help"]).ok();
    for word in ["list", "show", "explain", "export", "import", "erase", "expire", "verify", "stats", "Exit codes: 0"] {
        assert!(help.contains(word), "{help}");
    }
}

//! `export` and `import`.

use crate::support::Place;

#[test]
fn an_export_can_be_imported_into_another_store() {
    let place = Place::filled();
    place.label("acme/user-1/a", "title", "Nemo");
    let lines = place.run(&["export"]).ok();
    let imported = place.run_with("copy.db", &["import"], lines.as_bytes());
    assert_eq!(imported.code, Some(0), "{imported:?}");
    assert!(
        imported.err.contains("Read 4 conversations: stored 7 exchanges, and 0 were already there."),
        "{imported:?}"
    );
    let again = place.run_with("copy.db", &["import", "--json"], lines.as_bytes()).json();
    assert_eq!((&again["stored"], &again["present"], &again["labels"]), (&0.into(), &7.into(), &0.into()));
    let copied = place.command("copy.db", &["export"]).output().unwrap();
    assert_eq!(String::from_utf8(copied.stdout).unwrap(), lines);
}

#[test]
fn files_are_written_and_read() {
    let place = Place::filled();
    let exported = place.run(&["export", "acme/user-1", "--output", "user.jsonl", "--compactions", "--recall-data"]);
    assert!(exported.err.contains("Exported 2 conversations with 4 exchanges"), "{exported:?}");
    assert_eq!(exported.ok(), "");
    let import = ["import", "user.jsonl", "--rename", "acme/user-1", "--into", "new"];
    let imported = place.run(&import);
    assert_eq!(imported.code, Some(0), "{imported:?}");
    assert!(place.run(&["list", "new", "--json"]).ok().contains("\"id\":\"new/b\""));
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_an_exported_file_unless_it_existed() {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

    let place = Place::filled();
    let existing = place.path("existing.jsonl");
    std::fs::write(&existing, "an earlier export that is longer".repeat(1_000)).unwrap();
    std::fs::set_permissions(&existing, Permissions::from_mode(0o640)).unwrap();
    for (file, expected) in [("new.jsonl", 0o600), ("existing.jsonl", 0o640)] {
        place.run(&["export", "-o", file]).ok();
        let mode = std::fs::metadata(place.path(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, expected, "{file}");
    }
    let [new, replaced] = ["new.jsonl", "existing.jsonl"].map(|file| std::fs::read(place.path(file)).unwrap());
    assert!(new == replaced, "the earlier content is gone");
}

#[cfg(unix)]
#[test]
fn a_pipe_and_a_device_can_be_written() {
    let place = Place::filled();
    let lines = place.run(&["export"]).ok();
    assert_eq!(place.run(&["export", "-o", "/dev/stdout"]).ok(), lines);
    assert_eq!(place.run(&["export", "-o", "/dev/null"]).ok(), "");
}

#[cfg(unix)]
#[test]
fn a_named_pipe_can_be_written_and_read() {
    let place = Place::filled();
    let lines = place.run(&["export"]).ok();
    let pipe = place.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    place.run(&["export", "-o", "pipe"]).ok();
    assert_eq!(reader.join().unwrap(), lines);
    let writer = std::thread::spawn(move || std::fs::write(pipe, lines).unwrap());
    let imported = place.run(&["import", "pipe"]);
    assert_eq!(imported.code, Some(0), "{imported:?}");
    writer.join().unwrap();
}

#[test]
fn a_file_that_is_cut_off_is_reported() {
    let place = Place::filled();
    let lines = place.run(&["export"]).ok();
    let (cut, _) = lines.split_at(lines.len() / 2);
    let imported = place.run_with("copy.db", &["import"], cut.as_bytes());
    assert_eq!(imported.code, Some(1), "{imported:?}");
    assert!(imported.err.contains("the line is damaged") && imported.err.contains("cut off"), "{imported:?}");
}

#[test]
fn another_file_is_refused() {
    let imported = Place::filled().run_with("chat.db", &["import"], b"hello\n");
    assert_eq!(imported.code, Some(1));
    assert_eq!(imported.err, "chat-history: line 1 is not the beginning of an export: it is malformed (column 1)\n");
}

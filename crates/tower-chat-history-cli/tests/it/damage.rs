//! `verify`, and exports of damaged logs.

use crate::support::Place;

/// Returns a place whose conversation `acme/user-1/a` has a damaged exchange at position 1.
fn damaged() -> Place {
    let place = Place::filled();
    let file = rusqlite::Connection::open(place.path("chat.db")).unwrap();
    let changed = file
        .execute("UPDATE exchange SET body = '{' WHERE CAST(body AS TEXT) LIKE '%question 1 of acme/user-1/a%'", [])
        .unwrap();
    assert_eq!(changed, 1);
    place
}

#[test]
fn everything_is_read() {
    let ran = Place::filled().run(&["verify"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.err.contains("Read 4 conversations with 7 exchanges. Nothing is damaged."), "{ran:?}");
}

#[test]
fn damage_is_reported_with_its_position() {
    let place = damaged();
    let before = std::fs::read(place.path("chat.db")).unwrap();
    let ran = place.run(&["verify"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.starts_with("acme/user-1/a: exchange 1 cannot be read: "), "{ran:?}");
    assert_eq!(ran.out.lines().count(), 1);
    assert!(ran.err.contains("Read 4 conversations with 6 exchanges. 1 part is damaged."), "{ran:?}");
    assert_eq!(std::fs::read(place.path("chat.db")).unwrap(), before, "nothing is changed");
}

#[test]
fn a_compaction_that_cannot_be_read_is_reported() {
    let place = Place::filled();
    let file = rusqlite::Connection::open(place.path("chat.db")).unwrap();
    let sql = "INSERT INTO compaction SELECT id, 'default', 1, 0, CAST('{' AS BLOB), NULL FROM conversation
               WHERE key = 'acme/user-10'";
    assert_eq!(file.execute(sql, []).unwrap(), 1);
    let ran = place.run(&["verify"]);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(1), 1), "{ran:?}");
    assert!(ran.out.starts_with("acme/user-10: ") && ran.out.contains("compaction"), "{ran:?}");
    let ran = place.run(&["export", "--compactions"]);
    assert!(ran.code == Some(1) && ran.err.contains("acme/user-10: "), "{ran:?}");
}

#[test]
fn an_export_has_the_log_up_to_the_damage() {
    let place = damaged();
    let exported = place.run(&["export"]);
    assert_eq!(exported.code, Some(1), "{exported:?}");
    assert!(exported.err.contains("acme/user-1/a: the next exchange of the log cannot be read (position 1)"));
    let imported = place.run_with("copy.db", &["import"], exported.out.as_bytes());
    assert!(imported.code == Some(1) && imported.err.contains("stored 5 exchanges"), "{imported:?}");
}

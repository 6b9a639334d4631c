//! `import --from`.

use crate::support::Place;

const CHAT_ML: &str = r#"{"id":"acme:user-1:x","messages":[{"role":"system","content":"s"},{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}
not json
"#;

#[test]
fn a_file_of_another_format_is_imported() {
    let place = Place::empty();
    let args = ["import", "--from", "chat-ml", "--into", "in", "--separator", ":"];
    let ran = place.run_with("chat.db", &args, CHAT_ML.as_bytes());
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.err.contains("line 2: record 2: it is not valid JSON"), "{ran:?}");
    assert!(ran.err.contains("stored 1 exchange, and 0 were already there. 1 instruction was left out"), "{ran:?}");
    assert!(place.run(&["show", "in/acme/user-1/x"]).ok().contains("Hello"));
    let again = place.run_with("chat.db", &[&args[..], &["--json"]].concat(), CHAT_ML.as_bytes());
    let report: serde_json::Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!((&report["stored"], &report["present"]), (&0.into(), &1.into()));
}

#[test]
fn databases_of_other_libraries_are_imported() {
    let place = Place::empty();
    let file = rusqlite::Connection::open(place.path("langchain.db")).unwrap();
    file.execute_batch(
        "CREATE TABLE message_store (id INTEGER PRIMARY KEY, session_id TEXT, message TEXT);
         INSERT INTO message_store VALUES (1, 's', '{\"type\":\"human\",\"data\":{\"content\":\"Hi\"}}');",
    )
    .unwrap();
    let ran = place.run(&["import", "--from", "langchain-sqlite", "langchain.db"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(place.run(&["show", "s"]).ok().contains("Hi"));
    let ran = place.run(&["import", "--from", "langgraph-sqlite", "langchain.db"]);
    assert!(ran.code == Some(1) && ran.err.starts_with("chat-history: langchain.db: the database could not be read"));
    let ran = place.run(&["import", "--from", "agents-sqlite"]);
    assert_eq!(ran.err, "chat-history: --from: this format needs the name of a file\n");
}

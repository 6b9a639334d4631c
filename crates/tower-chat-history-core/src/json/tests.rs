//! Tests of the reader of JSON, most of them against serde_json.

use proptest::prelude::*;

use super::*;

const JSON: &str = r#"{ "a" : 1.50 , "b":"\u00e4,\"", "\ud83d":1, "a":null ,"c":[{}] }"#;

#[test]
fn a_changed_member_leaves_the_other_bytes() {
    let object = Object::read(JSON).unwrap();
    assert_eq!(object.with("b", "[2]"), JSON.replace(r#""\u00e4,\"""#, "[2]"));
    assert_eq!(object.with("a", "2"), JSON.replace("null", "2"));
    assert_eq!(object.with("d", "2"), JSON.replace(" }", r#" ,"d":2}"#));
    assert_eq!(Object::read("{ }").unwrap().with("d", "2"), r#"{ "d":2}"#);
}

#[test]
fn a_member_is_removed_as_often_as_it_occurs() {
    assert_eq!(Object::read(JSON).unwrap().without("a"), r#"{"b":"\u00e4,\"","\ud83d":1,"c":[{}]}"#);
    assert_eq!(Object::read(r#"{"a":1}"#).unwrap().without("a"), "{}");
}

#[test]
fn the_last_member_of_a_name_counts_and_null_is_no_value() {
    let object = Object::read(JSON).unwrap();
    assert_eq!((object.get("a"), object.get("d")), (None, None));
    assert_eq!(object.written("a").map(RawValue::get), Some("null"));
    assert!(object.repeats("a") && !object.repeats("b"));
    assert_eq!(object.text("b").as_deref(), Some("ä,\""));
    assert_eq!((object.text("c"), object.text_or_json("c").as_ref()), (None, "[{}]"));
    assert_eq!(object.text_if_any("b").unwrap().as_deref(), Some("ä,\""));
    assert!(object.text_if_any("a").is_ok_and(|text| text.is_none()) && object.text_if_any("c").is_err());
    assert_eq!((object.entries("c"), object.entries("b")), (Some(vec!["{}"]), None));
    let last: Vec<&str> = object.last_members().iter().map(|member| member.value.get()).collect();
    assert_eq!(last, [r#""\u00e4,\"""#, "1", "null", "[{}]"]);
}

#[test]
fn other_values_have_no_members_and_no_entries() {
    for json in ["", "1", "null", "\"a\"", "{", "[", "{}x", "[]x"] {
        assert!(Object::read(json).is_none() && entries(json).is_none(), "{json}");
    }
    assert!(Object::read("[]").is_none() && entries("{}").is_none());
}

#[test]
fn an_object_with_a_control_character_in_a_name_is_no_json() {
    for name in ["a\nb", "\0", "\u{1f}", "\n\\u0061", "\\n\n", "\\x", "\\u00"] {
        assert!(Object::read(&format!(r#"{{"{name}":1,"c":2}}"#)).is_none(), "{name:?}");
    }
}

#[test]
fn numbers_are_read_only_from_numbers() {
    let object = Object::read(r#"{"a":7,"b":-1,"c":"7","d":7.5,"e":null,"f":1e999}"#).unwrap();
    let names = ["a", "b", "c", "d", "e", "f"];
    assert_eq!(names.map(|name| object.number(name)), [Some(7), None, None, None, None, None]);
    assert_eq!(names.map(|name| object.finite(name)), [Some(7.0), Some(-1.0), None, Some(7.5), None, None]);
}

#[test]
fn deep_values_are_read_without_recursion() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let json = format!(r#"{{"a":{deep},"b":{deep}}}"#);
    assert_eq!(Object::read(&json).unwrap().get("b"), Some(deep.as_str()));
    assert_eq!(entries(&deep).unwrap(), [&deep[1..deep.len() - 1]]);
}

fn space() -> impl Strategy<Value = &'static str> + Clone {
    prop::sample::select(vec!["", " ", "\n\t", "\r\n "])
}

fn name() -> impl Strategy<Value = &'static str> + Clone {
    prop::sample::select(vec![r#""a""#, r#""b""#, r#""\u0061""#, r#""\ud83d""#, r#""}""#, r#"",""#, r#""\"""#])
}

/// A JSON value with all kinds of spaces, strings, numbers and nested values.
fn value() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        prop::sample::select(vec!["null", "true", "-1.5e+3", "0", r#""""#, r#""\\""#, r#""\"""#])
            .prop_map(str::to_owned),
        r#""([a-c{}:, ä€\[\]]|\\[nrtbf"/\\]|\\u00e4|\\ud83d){0,8}""#,
    ];
    scalar.prop_recursive(3, 24, 4, move |inner| {
        let entry = (space(), inner, space()).prop_map(|(before, json, after)| format!("{before}{json}{after}"));
        let member =
            (space(), name(), space(), entry.clone()).prop_map(|(a, name, b, json)| format!("{a}{name}{b}:{json}"));
        prop_oneof![
            prop::collection::vec(entry, 0..4).prop_map(|entries| format!("[{}]", entries.join(","))),
            prop::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
}

proptest! {
    #[test]
    fn the_members_and_entries_are_those_that_were_written(
        written in prop::collection::vec((name(), value()), 0..6),
        spaces in prop::collection::vec(space(), 5),
    ) {
        let [a, b, c, d, e] = spaces[..] else { return Ok(()) };
        let members = written.iter().map(|(name, value)| format!("{b}{name}{c}:{d}{value}{e}"));
        let json = format!("{a}{{{}}}{b}", members.collect::<Vec<_>>().join(","));
        let object = Object::read(&json).unwrap();
        let read = object.members().iter().map(|member| (member.quoted, member.value.get().to_owned()));
        prop_assert_eq!(read.collect::<Vec<_>>(), &written[..]);
        for (member, (name, value)) in object.members().iter().zip(&written) {
            prop_assert_eq!(&json[object.place(member)], format!("{name}{c}:{d}{value}"));
        }

        let list = written.iter().map(|(_, value)| format!("{b}{value}{c}"));
        let json = format!("{a}[{}]{b}", list.collect::<Vec<_>>().join(","));
        prop_assert_eq!(entries(&json).unwrap(), written.iter().map(|(_, value)| value).collect::<Vec<_>>());
    }

    #[test]
    fn the_values_are_those_that_serde_json_reads(json in value()) {
        let expected: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(&json).ok();
        // serde_json reads no name with a lone surrogate.
        if let Some(expected) = expected {
            let expected: Vec<_> = expected.into_iter().map(|(name, value)| (name, value.get())).collect();
            let read: Vec<_> = fields(&json).unwrap().into_iter().map(|(name, value)| (name, value.get())).collect();
            prop_assert_eq!(read, expected);
        }
        let expected: Option<Vec<&RawValue>> = serde_json::from_str(&json).ok();
        prop_assert_eq!(entries(&json), expected.map(|entries| entries.into_iter().map(RawValue::get).collect()));
    }

    /// Texts that are JSON, or nearly.
    #[test]
    fn whatever_serde_json_accepts_is_accepted_and_nothing_else(
        text in r#"[ \n]?[{\[]?(["{}\[\]:,\\a1äu \x01]|"a":|"\\ud83d"|null){0,8}[}\]]?[ x]?"#,
    ) {
        let is_json = serde_json::from_str::<&RawValue>(&text).is_ok();
        let first = text.trim_ascii_start().chars().next();
        prop_assert_eq!(Object::read(&text).is_some(), is_json && first == Some('{'));
        prop_assert_eq!(Object::parse(&text).is_ok(), is_json && first == Some('{'));
        prop_assert_eq!(entries(&text).is_some(), is_json && first == Some('['));
    }

    #[test]
    fn a_text_is_decoded_as_serde_json_does(
        pieces in prop::collection::vec(prop_oneof![
            "[^\"\\\\\\x00-\\x1f]{0,4}",
            prop::sample::select(vec![r"\n", r"\t", r"\r", r"\b", r"\f", r"\/", r"\\", "\\\"", r"\u0041", r"\u00e4", r"\u0000", r"\ud83d", r"\ude00", r"\ud83d\ude00", r"\uFFFF"]).prop_map(str::to_owned),
        ], 0..12),
    ) {
        let json = format!("\"{}\"", pieces.concat());
        let decoded = text(&json).unwrap();
        match serde_json::from_str::<String>(&json) {
            Ok(expected) => prop_assert_eq!(decoded, expected),
            Err(_) => prop_assert!(decoded.contains(char::REPLACEMENT_CHARACTER)),
        }
        let written = quoted(&json);
        prop_assert_eq!(text(&written), Some(Cow::Borrowed(&*json)));
    }
}

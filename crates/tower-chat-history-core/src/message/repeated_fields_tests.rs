//! Tests of messages in which fields are repeated. The last one counts, whatever the first one is.

use super::dialect::{Media, Part};
use super::*;

/// Returns the messages with each kind of value in place of each `?`.
fn messages(json: &str) -> Vec<Message> {
    let firsts = ["null", "1", r#""x""#, "[]", "{}"];
    firsts.iter().map(|first| Message::from_json(json.replace('?', first)).unwrap()).collect()
}

fn parts(message: &Message) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    message.parts(&mut |part| parts.push(part));
    parts
}

#[test]
fn the_last_of_repeated_fields_of_a_message_counts() {
    for message in messages(r#"{"role":?,"content":?,"name":?,"role":"user","content":"t","name":"n"}"#) {
        assert_eq!((message.role(), &*message.text(), message.name()), (&Role::User, "t", Some("n")));
        assert_eq!(parts(&message), [Part::Name("n"), Part::Text("t".into())], "{}", message.json());
    }
}

#[test]
fn the_last_of_repeated_fields_of_a_call_counts() {
    let json = r#"{"role":"assistant","tool_calls":?,"tool_calls":[{"id":?,"function":?,"id":"a","type":?,
        "type":"function","function":{"name":?,"arguments":?,"name":"f","arguments":"{}"}}]}"#;
    for message in messages(json) {
        let calls: Vec<_> =
            message.tool_calls().iter().map(|call| (call.id(), call.name(), call.arguments())).collect();
        assert_eq!(calls, [("a", "f", "{}")], "{}", message.json());
    }
}

#[test]
fn the_last_of_repeated_fields_of_a_text_counts() {
    for message in messages(r#"{"role":"user","content":[{"type":?,"text":?,"type":"text","text":"t"}]}"#) {
        assert_eq!(parts(&message), [Part::Text("t".into())], "{}", message.json());
        assert_eq!(message.text(), "t", "{}", message.json());
    }
}

#[test]
fn the_last_of_repeated_fields_of_an_image_counts() {
    let json = r#"{"role":"user","content":[{"type":?,"image_url":?,"type":"image_url",
        "image_url":{"url":?,"detail":?,"url":"data:,","detail":"low"}}]}"#;
    for message in messages(json) {
        let (media, data) = (Media::ImageLowDetail, Some("data:,".into()));
        let image = Part::Media { media, kind: "image_url".into(), words: None, data };
        assert_eq!(parts(&message), [image], "{}", message.json());
    }
}

#[test]
fn the_last_of_repeated_fields_that_few_replies_have_counts() {
    let json = r#"{"role":"assistant","refusal":?,"refusal":"no","function_call":?,"audio":?,
        "audio":{"transcript":?,"transcript":"t"},"function_call":{"name":?,"name":"f","arguments":"{}"}}"#;
    for message in messages(json) {
        let (media, words) = (Media::Audio, Some("t".into()));
        let audio = Part::Media { media, kind: "audio".into(), words, data: None };
        let call = Part::OtherCall { name: "f".into(), arguments: "{}".into() };
        assert_eq!(parts(&message), [Part::Refusal("no".into()), audio, call], "{}", message.json());
    }
}

#[test]
fn a_message_whose_last_role_is_no_text_is_refused() {
    for last in ["null", "1", "[]"] {
        let json = format!(r#"{{"role":"user","content":"t","role":{last}}}"#);
        assert!(Message::from_json(json).is_err(), "{last}");
    }
}

//! Parts of the first message that does not fit, and further cases that LangChain's tests do not cover. The
//! expected values are LangChain's results.

use serde_json::json;
use tower_chat_history::{
    Message,
    store::Content,
    tokens::{MessageCount, per_message},
    trim::{Speaker, Trim},
};

use super::{as_langchain, assert_unchanged, both_ways, by_dummy_count, calls, json_of, message};

/// Counts the characters of a text, and 10 for an image.
fn size(message: &Message) -> u32 {
    let images = match message.content() {
        Content::Parts(parts) => parts.iter().filter(|part| part.contains("image_url")).count(),
        _ => 0,
    };
    u32::try_from(message.text().chars().count() + 10 * images).unwrap()
}

#[test]
fn a_text_is_split_after_line_ends() {
    let messages = [Message::user("one\ntwo\nthree\n")];
    for (max_tokens, first, last) in [
        (3, None, Some("")),
        (4, Some("one\n"), Some("")),
        (6, Some("one\n"), Some("three\n")),
        (11, Some("one\ntwo\n"), Some("two\nthree\n")),
    ] {
        let counter = per_message(size);
        let expected = |text: Option<&str>| text.map(Message::user).into_iter().collect::<Vec<_>>();
        let kept = both_ways(&messages, &Trim::first(max_tokens).allow_partial(), &counter);
        assert_eq!(kept, expected(first), "first {max_tokens}");
        let trim = Trim::last(max_tokens).allow_partial();
        assert_eq!(as_langchain(&messages, &trim, &counter), expected(last), "last {max_tokens}");
        // Providers refuse a message without text.
        let kept = assert_unchanged(&messages, |messages| trim.apply(messages, &counter));
        assert_eq!(kept, expected(last.filter(|text| !text.is_empty())), "last {max_tokens}");
    }
}

#[test]
fn first_keeps_the_image_and_last_keeps_lines_of_the_text() {
    let (image, text) =
        (json!({"type": "image_url", "image_url": {"url": "u"}}), json!({"type": "text", "text": "a\nbc"}));
    let messages = [message(json!({"role": "user", "content": [image, text]}))];
    let counter = per_message(size);
    let first = message(json!({"role": "user", "content": [image]}));
    assert_eq!(both_ways(&messages, &Trim::first(11).allow_partial(), &counter), [first]);
    let last = message(json!({"role": "user", "content": "bc"}));
    assert_eq!(both_ways(&messages, &Trim::last(3).allow_partial(), &counter), [last]);
    assert_eq!(both_ways(&messages, &Trim::first(9).allow_partial(), &counter), [], "an image has no lines");
}

#[test]
fn a_part_keeps_the_other_fields_as_they_are_written() {
    let json = r#"{ "x" : 1.50, "content" : "a\nbc", "role":"user","name":"n" }"#;
    let kept = both_ways(&[Message::from_json(json).unwrap()], &Trim::last(2).allow_partial(), &per_message(size));
    assert_eq!(json_of(&kept), [json.replace(r"a\nbc", "bc")]);
}

#[test]
fn messages_without_a_text_have_no_part() {
    let messages = [message(json!({"role": "user", "content": []})), Message::user(""), Message::assistant("a")];
    for max_tokens in [0, 10, 20] {
        let trim = Trim::last(max_tokens).allow_partial();
        assert_eq!(by_dummy_count(&messages, &trim), messages[3 - usize::try_from(max_tokens / 10).unwrap()..]);
    }
    assert_eq!(as_langchain(&[calls(&["x"])], &Trim::first(0).allow_partial(), &MessageCount::new()), []);
}

#[test]
fn a_splitter_without_pieces_keeps_nothing() {
    let trim = Trim::first(5).allow_partial_by(|_| Vec::new());
    assert_eq!(both_ways(&[Message::user("too long")], &trim, &per_message(size)), []);
}

#[test]
fn the_system_message_stays_even_if_it_alone_is_too_large() {
    let messages = [Message::system("s"), Message::user("u")];
    for max_tokens in [0, 9, 10, 19] {
        assert_eq!(by_dummy_count(&messages, &Trim::last(max_tokens).include_system()), messages[..1]);
    }
    let developer = [Message::developer("s"), Message::user("u")];
    assert_eq!(by_dummy_count(&developer, &Trim::last(0).include_system()), developer[..1]);
}

#[test]
fn only_a_first_message_is_the_system_message() {
    let messages = [Message::user("u"), Message::system("s"), Message::assistant("a")];
    assert_eq!(by_dummy_count(&messages, &Trim::last(10).include_system()), messages[2..]);
    let messages = [Message::system("s"), Message::system("t"), Message::assistant("a")];
    let kept = by_dummy_count(&messages, &Trim::last(20).include_system());
    assert_eq!(kept, [messages[0].clone(), messages[2].clone()]);
}

#[test]
fn end_on_applies_before_the_system_message_is_kept() {
    let messages = [Message::system("s"), Message::assistant("a")];
    assert_eq!(by_dummy_count(&messages, &Trim::last(90).include_system().end_on([Speaker::User])), []);
}

#[test]
fn start_on_and_end_on_apply_even_if_everything_fits() {
    let messages = [Message::system("s"), Message::user("u"), Message::assistant("a")];
    assert_eq!(by_dummy_count(&messages, &Trim::last(90).start_on([Speaker::User])), messages[1..]);
    assert_eq!(by_dummy_count(&messages, &Trim::first(90).end_on([Speaker::User])), messages[..2]);
    assert_eq!(by_dummy_count(&messages, &Trim::last(90).start_on([Speaker::Function])), []);
    assert_eq!(by_dummy_count(&messages, &Trim::last(90).start_on([]).end_on([])), messages);
}

//! Tests of the reasoning in replies.

use serde_json::{Value, json};

use crate::{
    digest::Digest,
    message::{Bound, ChatCompletions, Dialect as _, Message, Part},
};

fn message(json: &Value) -> Message {
    Message::try_from(json.clone()).unwrap()
}

fn reply(fields: &Value) -> Message {
    let mut reply = json!({"role": "assistant", "content": "a"});
    reply.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    message(&reply)
}

fn call(more: &Value) -> Value {
    let mut call = json!({"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call
}

fn calls(calls: &[Value]) -> Message {
    message(&json!({"role": "assistant", "content": null, "tool_calls": calls}))
}

fn parsed(message: &Message) -> Value {
    serde_json::from_str(message.json()).unwrap()
}

/// Returns the parts that are reasoning, as text, and the sizes of the sealed ones.
fn reasoning(message: &Message) -> (Vec<String>, Vec<usize>) {
    let (mut texts, mut sealed) = (Vec::new(), Vec::new());
    message.parts(&mut |part| match part {
        Part::Reasoning(text) => texts.push(text.into_owned()),
        Part::Sealed(bytes) => sealed.push(bytes),
        _ => {}
    });
    (texts, sealed)
}

/// Asserts what binds the reply, and the reply without it.
fn assert_bound(reply: &Message, bound: Bound, rest: &Value) {
    assert_eq!(reply.bound(), bound, "{}", reply.json());
    assert_eq!(parsed(reply.unbound().unwrap()), *rest);
    let again = reply.unbound().unwrap();
    assert_eq!((again.bound(), again.unbound()), (Bound::NONE, Some(again)), "nothing bound is left");
}

#[test]
fn google_signatures_are_bound_to_their_origin() {
    let plain = call(&json!({"id": "y"}));
    for signature in [
        json!({"extra_content": {"google": {"thought_signature": "abcdef"}}}),
        json!({"extra_content": {"vertex": {"thought_signature": "abcdef"}}}),
        json!({"provider_specific_fields": {"thought_signature": "abcdef"}}),
        json!({"thought_signature": "abcdef"}),
        json!({"function": {"name": "f", "arguments": "{}", "provider_specific_fields": {"thought_signature": "abcdef"}}}),
    ] {
        let signed = calls(&[call(&signature), plain.clone()]);
        let rest = json!({"role": "assistant", "content": null, "tool_calls": [call(&json!({})), plain]});
        assert_bound(&signed, Bound::TO_ORIGIN, &rest);
        assert_eq!(reasoning(&signed), (vec![], vec![6]));
        assert_eq!(signed.unbound().unwrap().tool_calls(), signed.tool_calls());
    }
    let text = json!({"role": "assistant", "content": "a"});
    let signed = reply(&json!({"extra_content": {"google": {"thought_signature": "abc"}}}));
    assert_bound(&signed, Bound::TO_ORIGIN, &text);
    assert_eq!(reasoning(&signed), (vec![], vec![3]));
    let signed = reply(&json!({"provider_specific_fields": {"thought_signatures": ["abc", "de"], "citations": null}}));
    let rest = json!({"role": "assistant", "content": "a", "provider_specific_fields": {"citations": null}});
    assert_bound(&signed, Bound::TO_ORIGIN, &rest);
    assert_eq!(reasoning(&signed), (vec![], vec![3, 2]));
}

#[test]
fn other_content_of_the_vendor_stays() {
    let signed = json!({"extra_content": {"google": {"thought_signature": "s", "thought": true}, "x": 1.50}});
    let rest = call(&json!({"extra_content": {"google": {"thought": true}, "x": 1.50}}));
    let rest = json!({"role": "assistant", "content": null, "tool_calls": [rest]});
    assert_bound(&calls(&[call(&signed)]), Bound::TO_ORIGIN, &rest);
}

#[test]
fn a_list_of_details_goes_as_a_whole_with_the_text_that_repeats_it() {
    let text = json!({"role": "assistant", "content": "a"});
    let details = |format: &str, signed: &Value| {
        let mut second = json!({"type": "reasoning.text", "text": "two", "index": 1, "format": format});
        second.as_object_mut().unwrap().extend(signed.as_object().unwrap().clone());
        let first = json!({"type": "reasoning.summary", "summary": "one", "index": 0, "format": format});
        reply(&json!({"reasoning": "onetwo", "reasoning_details": [first, second]}))
    };
    let anthropic = details("anthropic-claude-v1", &json!({"signature": "abcd"}));
    assert_bound(&anthropic, Bound::TO_PREFIX, &text);
    assert_eq!(reasoning(&anthropic), (vec!["one".into(), "two".into()], vec![4]));
    let encrypted = json!({"type": "reasoning.encrypted", "data": "abcd"});
    assert_bound(&details("anthropic-claude-v1", &encrypted), Bound::TO_PREFIX, &text);
    assert_bound(&details("google-gemini-v1", &encrypted), Bound::TO_ORIGIN, &text);
    assert_bound(&details("openai-responses-v1", &encrypted), Bound::TO_ORIGIN, &text);
    assert_bound(&details("unknown", &json!({"signature": "abcd"})), Bound::TO_PREFIX, &text);
    assert_bound(&details("unknown", &encrypted), Bound::TO_ORIGIN, &text);
    let plain = details("anthropic-claude-v1", &json!({"signature": null, "data": ""}));
    assert_eq!((plain.bound(), plain.unbound()), (Bound::NONE, Some(&plain)), "nothing is signed");
}

#[test]
fn thinking_blocks_are_bound_to_their_prompt() {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "abcd"});
    let redacted = json!({"type": "redacted_thinking", "data": "efg"});
    for blocks in [json!([thinking]), json!([redacted]), json!([thinking, redacted])] {
        let signed = reply(&json!({"reasoning_content": "hm", "thinking_blocks": blocks,
            "provider_specific_fields": {"thinking_blocks": blocks, "citations": []}}));
        let rest = json!({"role": "assistant", "content": "a", "reasoning_content": "hm",
            "provider_specific_fields": {"citations": []}});
        assert_bound(&signed, Bound::TO_PREFIX, &rest);
    }
    let both = reply(&json!({"reasoning_content": "hm", "thinking_blocks": [thinking, redacted]}));
    assert_eq!(reasoning(&both), (vec!["hm".into()], vec![4, 3]), "a text in two fields counts once");
    let copied = reply(&json!({"provider_specific_fields": {"thinking_blocks": [thinking]}}));
    assert_bound(&copied, Bound::TO_PREFIX, &json!({"role": "assistant", "content": "a"}));
    let bedrock = json!({"reasoningContentBlocks": [{"reasoningText": {"text": "hm", "signature": "abcd"}}]});
    let bedrock = reply(&json!({"provider_specific_fields": bedrock}));
    assert_bound(&bedrock, Bound::TO_PREFIX, &json!({"role": "assistant", "content": "a"}));
    let unsigned = reply(&json!({"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": ""}]}));
    assert_eq!(unsigned.bound(), Bound::NONE);
}

#[test]
fn reasoning_without_a_signature_is_bound_to_nothing() {
    for (name, text) in [("reasoning_content", ""), ("reasoning_content", "hm"), ("reasoning", "hm")] {
        let made = reply(&json!({name: text}));
        assert_eq!((made.bound(), made.unbound()), (Bound::NONE, Some(&made)));
        let expected: Vec<String> = [text.to_owned()].into_iter().filter(|text| !text.is_empty()).collect();
        assert_eq!(reasoning(&made), (expected, vec![]));
    }
    // An empty one stays next to what is removed.
    let signature = json!({"extra_content": {"google": {"thought_signature": "s"}}});
    let made = reply(&json!({"reasoning_content": "", "tool_calls": [call(&signature)]}));
    assert_eq!(parsed(made.unbound().unwrap())["reasoning_content"], "");
}

#[test]
fn only_replies_are_bound() {
    let fields = r#""thinking_blocks":[{"type":"thinking","thinking":"t","signature":"s"}]"#;
    for role in ["user", "tool", "system", "developer"] {
        let made = Message::from_json(format!(r#"{{"role":"{role}","content":"a",{fields}}}"#)).unwrap();
        assert_eq!((made.bound(), reasoning(&made)), (Bound::NONE, (vec![], vec![])));
    }
}

#[test]
fn a_reply_of_signed_reasoning_alone_leaves_nothing() {
    let blocks = json!([{"type": "thinking", "thinking": "t", "signature": "s"}]);
    let made = message(&json!({"role": "assistant", "content": null, "thinking_blocks": blocks}));
    assert_eq!((made.bound(), made.unbound()), (Bound::TO_PREFIX, None));
}

#[test]
fn empty_values_and_values_in_other_places_are_not_signatures() {
    for odd in [
        json!({"reasoning_details": "s"}),
        json!({"reasoning_details": [1, null, "s", [], {"signature": null, "data": ""}]}),
        json!({"thinking_blocks": null, "extra_content": [], "provider_specific_fields": "s"}),
        json!({"extra_content": {"google": {"thought_signature": null, "thought_signatures": [null, ""]}}}),
        json!({"extra_content": {"google": null, "x": {"thought_signature": "s"}}}),
    ] {
        let made = reply(&odd);
        assert_eq!((made.bound(), made.unbound()), (Bound::NONE, Some(&made)), "{odd}");
    }
    assert_eq!(reasoning(&reply(&json!({"reasoning": {"steps": 2}}))).0, [r#"{"steps":2}"#]);
}

#[test]
fn signatures_that_are_not_strings_are_bound() {
    for (odd, bound) in [
        (json!({"reasoning_details": {"signature": "s"}}), Bound::TO_PREFIX),
        (json!({"reasoning_details": [1, null, {"signature": 1}]}), Bound::TO_PREFIX),
        (json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": {}}]}), Bound::TO_ORIGIN),
        (json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "s", "format": 1}]}), Bound::TO_PREFIX),
        (json!({"thinking_blocks": [{"type": "thinking", "signature": ["s"]}]}), Bound::TO_PREFIX),
        (json!({"extra_content": {"google": {"thought_signature": {"a": 1}}}}), Bound::TO_ORIGIN),
        (json!({"extra_content": {"google": {"thought_signatures": ["", 1]}}}), Bound::TO_ORIGIN),
    ] {
        assert_bound(&reply(&odd), bound, &json!({"role": "assistant", "content": "a"}));
    }
    let blocks = json!([{"reasoningText": "hm", "signature": "abcd"}]);
    let made = reply(&json!({"provider_specific_fields": {"reasoningContentBlocks": blocks}}));
    assert_bound(&made, Bound::TO_PREFIX, &json!({"role": "assistant", "content": "a"}));
    let made = reply(&json!({"thinking_blocks": blocks}));
    assert_eq!(reasoning(&made), (vec!["hm".into()], vec![4]));
}

#[test]
fn signatures_beside_names_with_lone_surrogates_and_repeated_fields_are_found() {
    let surrogate = r#""\ud83d":"\ud83d""#;
    let signed = r#""signature":"s","thinking":"t","type":"thinking""#;
    let google = format!(r#""extra_content":{{{surrogate},"google":{{{surrogate},"thought_signature":"s"}}}}"#);
    let call = format!(r#"{{"id":"x","type":"function","function":{{"name":"f","arguments":"{{}}"}},{google}}}"#);
    for (fields, bound) in [
        (google.clone(), Bound::TO_ORIGIN),
        (format!(r#""tool_calls":[{call}]"#), Bound::TO_ORIGIN),
        (format!(r#""thinking_blocks":[{{{surrogate},{signed}}}]"#), Bound::TO_PREFIX),
        (format!(r#""thinking_blocks":[{{"signature":null,{signed}}}]"#), Bound::TO_PREFIX),
        (format!(r#""thinking_blocks":[1,{{"type":"thinking",{signed}}}]"#), Bound::TO_PREFIX),
        (format!(r#""reasoning_details":[{{{surrogate},{signed}}}]"#), Bound::TO_PREFIX),
        (
            format!(r#""provider_specific_fields":{{{surrogate},"thinking_blocks":[{{{surrogate},{signed}}}]}}"#),
            Bound::TO_PREFIX,
        ),
        (
            format!(
                r#""provider_specific_fields":{{"reasoningContentBlocks":[{{"reasoningText":{{{surrogate},{signed}}}}}]}}"#
            ),
            Bound::TO_PREFIX,
        ),
    ] {
        let made = Message::from_json(format!(r#"{{"role":"assistant","content":"a",{fields}}}"#)).unwrap();
        assert_eq!(made.bound(), bound, "{fields}");
        let rest = made.unbound().unwrap();
        assert!(rest.bound() == Bound::NONE && !rest.json().contains(r#":"s""#), "{}", rest.json());
    }
}

#[test]
fn deep_fields_take_no_recursion() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let made = format!(
        r#"{{"role":"assistant","content":"a","reasoning_details":[{{"signature":"s","type":"thinking","x":{deep}}}],
        "extra_content":{{"google":{{"thought_signature":"s","x":{deep}}}}},"tool_calls":[{{"id":"x","function":
        {{"name":"f","arguments":"","provider_specific_fields":{{"thought_signature":"s","x":{deep}}}}}}}]}}"#
    );
    let made = Message::from_json(made).unwrap();
    assert_eq!(made.bound(), Bound::TO_PREFIX);
    let rest = made.unbound().unwrap();
    assert_eq!(rest.bound(), Bound::NONE);
    assert_eq!(rest.json().matches(&deep).count(), 2, "only the list is left out");
}

#[test]
fn a_mark_for_the_cache_does_not_change_the_digest() {
    let plain = r#"{"role":"user","content":[{"type":"text","text":"a"}]}"#;
    let marked = r#"{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}"#;
    assert_eq!(ChatCompletions.digest(plain), Digest::of(plain.as_bytes()));
    assert_eq!(Message::from_json(marked).unwrap().digest(), ChatCompletions.digest(plain));
    assert_ne!(ChatCompletions.digest(plain), ChatCompletions.digest(&plain.replace("\"a\"", "\"b\"")));
}

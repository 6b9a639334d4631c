use proptest::prelude::*;
use serde_json::json;
use tower_chat_history_core::{CallIdForm, Compat, ReasoningField, SystemMessages};

use super::{
    ErrorFields, Remedy, TooLong,
    meaning::Meaning,
    pattern::Match,
    wordings::{GROUPS, PREFIXES, RATES},
};

/// Returns a message that a wording fits.
fn example(wording: &str) -> String {
    let values = [
        ("{limit}", "8192"),
        ("{prompt}", "9012"),
        ("{n}", "1"),
        ("{path}", "messages[2].tool_calls[0].id"),
        ("{name}", "reasoning_content"),
        ("{any}", "gAAA...DQ=="),
    ];
    values.iter().fold(wording.to_owned(), |text, (hole, value)| text.replace(hole, value))
}

/// Returns a message that a wording of a text fits, whose path is that of a content.
fn example_of(meaning: Meaning, wording: &str) -> String {
    let message = example(wording);
    if meaning == Meaning::Text { message.replace("tool_calls[0].id", "content") } else { message }
}

fn of_message(message: &str) -> Option<Remedy> {
    Remedy::of_error(None, &ErrorFields { message, ..ErrorFields::default() })
}

fn of_body(status: u16, body: &str) -> Option<Remedy> {
    Remedy::of_body(Some(status), body.as_bytes())
}

fn too_long(limit: u32, prompt: u32) -> Option<Remedy> {
    let sizes = TooLong { limit: Some(limit).filter(|n| *n > 0), prompt: Some(prompt).filter(|n| *n > 0) };
    Some(Remedy::Shorten(sizes))
}

fn adapt(change: impl FnOnce(&mut Compat)) -> Option<Remedy> {
    let mut compat = Compat::default();
    change(&mut compat);
    Some(Remedy::Adapt(Box::new(compat)))
}

#[test]
fn each_wording_is_understood_as_its_group_says() {
    for group in GROUPS {
        for (wording, _) in group.wordings {
            let message = example_of(group.meaning, wording);
            let expected = Match::new(&message, wording).and_then(|found| group.meaning.remedy(&found));
            assert!(expected.is_some(), "{wording}");
            assert_eq!(of_message(&message), expected, "{wording}");
        }
    }
}

#[test]
fn each_wording_is_understood_after_each_prefix() {
    for group in GROUPS {
        for (wording, _) in group.wordings {
            let message = example_of(group.meaning, wording);
            for (prefix, _) in PREFIXES {
                let said = format!("{}{message}", example(prefix));
                assert_eq!(of_message(&said), of_message(&message), "{said}");
            }
        }
    }
}

#[test]
fn each_wording_is_understood_in_each_form_of_a_body() {
    for group in GROUPS {
        for (wording, _) in group.wordings {
            let message = example_of(group.meaning, wording);
            let inner = json!({"error": {"message": message, "type": "invalid_request_error", "code": null}});
            let quoted = inner.to_string();
            let forms = [
                inner.clone(),
                json!([inner]),
                json!({"object": "error", "message": message, "type": "BadRequestError", "param": null, "code": 400}),
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}}),
                json!({"error": message}),
                json!({"code": "Client specified an invalid argument", "error": message}),
                json!({"message": message}),
                json!({"detail": message}),
                json!({"success": false, "errors": [{"message": format!("AiError: {message}"), "code": 5021}]}),
                json!({"error": {"message": format!("litellm.BadRequestError: AnthropicException - b'{quoted}'")}}),
                json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": quoted}}}),
                json!({"error": {"message": format!("litellm.BadRequestError: OpenAIException - {quoted}. Received Model Group=a\nAvailable Model Group Fallbacks=None"), "code": "400"}}),
                json!({"error": {"message": format!("litellm.BadRequestError: VertexAIException BadRequestError - {message}")}}),
                json!({"error": quoted}),
            ];
            for form in forms {
                let body = form.to_string();
                assert_eq!(of_body(400, &body), of_message(&message), "{body}");

                let events = format!(": ping\n\nevent: error\ndata: {body}\n\n");
                assert_eq!(of_body(200, &events), of_message(&message), "{events}");
            }
        }
    }
}

#[test]
fn a_message_that_quotes_a_wording_is_not_understood() {
    for group in GROUPS {
        for (wording, _) in group.wordings {
            let message = example_of(group.meaning, wording);
            for quote in [
                format!("Your message was blocked: {message}"),
                format!("Invalid value: '{message}'"),
                format!("\"{message}\" violates our usage policies"),
                format!("The tool returned {{\"error\":\"{message}\"}}"),
            ] {
                assert_eq!(of_message(&quote), None, "{quote}");
                let body = json!({"error": {"message": quote, "type": "invalid_request_error"}}).to_string();
                assert_eq!(of_body(400, &body), None, "{quote}");
            }
        }
    }
}

#[test]
fn a_value_that_an_error_quotes_is_not_read() {
    let text = "prompt is too long: 300 tokens > 299 maximum";
    let body = json!({"detail": [{"type": "bool_type", "loc": ["body", "stream"], "msg": "Input should be a valid boolean", "input": text}]});
    assert_eq!(of_body(422, &body.to_string()), None);
}

#[test]
fn a_rate_is_not_a_size() {
    let groq = "Request too large for model `llama-3.3-70b-versatile` in organization `org_1` service tier `on_demand` \
                on tokens per minute (TPM): Limit 12000, Requested 14137, please reduce your message size and try again.";
    let body = json!({"error": {"message": groq, "type": "tokens", "code": "rate_limit_exceeded"}}).to_string();
    assert_eq!(of_body(413, &body), None);
    assert_eq!(of_body(400, &body), None);
    assert_eq!(of_message(groq), None);
    assert_eq!(of_message(&format!("litellm.RateLimitError: GroqException - {body}")), None);

    for (wording, _) in RATES {
        assert_eq!(of_message(wording), None, "{wording}");
        assert_eq!(of_body(413, &json!({"error": {"message": wording}}).to_string()), None, "{wording}");
    }

    let message = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9012 tokens.";
    let said = json!({"error": {"message": message, "code": "context_length_exceeded"}}).to_string();
    for status in [401, 402, 403, 429, 502, 503, 529] {
        assert_eq!(of_body(status, &said), None, "{status}");
    }
}

#[test]
fn a_prompt_that_is_too_long() {
    let openai = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9012 tokens. \
                  Please reduce the length of the messages.";
    let body = json!({"error": {"message": openai, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}});
    assert_eq!(of_body(400, &body.to_string()), too_long(8192, 9012));

    for (message, limit, prompt) in [
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.",
            8192,
            8000,
        ),
        (
            "This model's maximum context length is 2048 tokens. However, you requested 2078 tokens (2078 in the messages, None in the completion).",
            2048,
            2078,
        ),
        (
            "This model's maximum context length is 262144 tokens. However, you requested 32000 output tokens and your prompt contains at least 230145 input tokens, for a total of at least 262145 tokens. (parameter=input_tokens, value=230145)",
            262_144,
            0,
        ),
        (
            "You passed 8193 input tokens and requested 100 output tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 8092 tokens.",
            8192,
            0,
        ),
        ("The input (516368 tokens) is longer than the model's context length (262144 tokens).", 262_144, 516_368),
        (
            "Requested token count exceeds the model's maximum context length of 1000 tokens. You requested a total of 1206 tokens: 600 tokens from the input messages and 606 tokens for the completion.",
            1000,
            600,
        ),
        (
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`",
            4096,
            5000,
        ),
        ("prompt is too long: 201234 tokens > 200000 maximum", 200_000, 201_234),
        (
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again",
            200_000,
            188_240,
        ),
        (
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            1_048_575,
            1_196_265,
        ),
        (
            "Prompt contains 235396 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
            131_072,
            235_396,
        ),
        ("Please reduce the length of the messages or completion.", 0, 0),
        (
            "Please reduce the length of the messages or completion. Current length is 140000 while limit is 131072",
            131_072,
            140_000,
        ),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072, 537_812),
        (
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 200000 tokens (190000 of text input, 10000 in the output).",
            131_072,
            190_000,
        ),
        ("Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)", 262_144, 291_351),
        ("invalid params, context window exceeds limit (2013)", 0, 0),
        ("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", 129_024, 0),
        ("Prompt has 300,000 tokens, but the configured context size is 131,072 tokens", 131_072, 300_000),
        (
            "litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: OpenAIException - Something new",
            0,
            0,
        ),
        (
            "Error code: 400 - {'error': {'message': \"This model's maximum context length is 8192 tokens. However, your messages resulted in 9012 tokens.\", 'type': 'invalid_request_error'}}",
            8192,
            9012,
        ),
    ] {
        assert_eq!(of_message(message), too_long(limit, prompt), "{message}");
    }
}

#[test]
fn the_sizes_of_llama_cpp_are_in_the_message_or_in_fields() {
    let body = r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":13392,"n_ctx":8192}}"#;
    assert_eq!(of_body(400, body), too_long(8192, 13392));

    let body = r#"{"error":{"code":400,"message":"request (13392 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error"}}"#;
    assert_eq!(of_body(400, body), too_long(8192, 13392));

    let body = r#"{"error":{"code":400,"message":"new words","type":"exceed_context_size_error","n_prompt_tokens":13392,"n_ctx":8192}}"#;
    assert_eq!(of_body(400, body), too_long(8192, 13392));
}

#[test]
fn an_error_of_responses_comes_after_its_first_event() {
    let events = concat!(
        "event: response.created\n",
        r#"data: {"type":"response.created","response":{"id":"resp_1","error":null}}"#,
        "\n\nevent: error\n",
        r#"data: {"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"Your input exceeds the context window of this model. Please adjust your input and try again.","param":"input"},"sequence_number":2}"#,
        "\n\n",
    );
    assert_eq!(of_body(200, events), too_long(0, 0));

    let failed = r#"data: {"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}"#;
    assert_eq!(of_body(200, failed), too_long(0, 0));
}

#[test]
fn absurd_numbers_are_left_out() {
    for (said, limit) in [("0", None), ("255", None), ("256", Some(256)), ("99999999999999999999999", None)] {
        let message = format!("prompt is too long: 9012 tokens > {said} maximum");
        let sizes = TooLong { limit, prompt: Some(9012) };
        assert_eq!(of_message(&message), Some(Remedy::Shorten(sizes)), "{message}");
    }
    assert_eq!(of_message("At most 99999999999 image(s) may be provided in one prompt."), None);
}

#[test]
fn too_many_bytes() {
    let body = r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#;
    assert_eq!(of_body(413, body), Some(Remedy::FewerBytes));
    assert_eq!(of_body(413, "<html>413 Request Entity Too Large</html>"), Some(Remedy::FewerBytes));
    assert_eq!(of_body(413, ""), Some(Remedy::FewerBytes));
    assert_eq!(of_body(400, ""), None);
}

#[test]
fn unknown_fields_by_server() {
    let refused = |compat: &mut Compat| {
        compat.plain_fields = true;
        compat.reasoning = ReasoningField::Refused;
    };
    let groq = "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]";
    assert_eq!(of_message(groq), adapt(refused));
    assert_eq!(
        of_message(&groq.replace("reasoning_content", "annotations")),
        adapt(|compat| compat.plain_fields = true)
    );

    let cerebras = r#"{"message":"messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported\nmessages.4.assistant.reasoning_content: property 'messages.4.assistant.reasoning_content' is unsupported","type":"invalid_request_error","param":"validation_error","code":"wrong_api_format"}"#;
    assert_eq!(of_body(400, cerebras), adapt(refused));

    let detail = json!([
        {"type": "extra_forbidden", "loc": ["body", "messages", 1, "assistant", "refusal"], "msg": "Extra inputs are not permitted", "input": null},
        {"type": "extra_forbidden", "loc": ["body", "messages", 1, "assistant", "reasoning_content"], "msg": "Extra inputs are not permitted", "input": "prompt is too long"},
    ]);
    for mistral in [
        json!({"object": "error", "message": {"detail": detail}, "type": "invalid_request_error", "param": null, "code": null}),
        json!({"object": "Error", "detail": detail, "message": detail, "type": "invalid_request_error", "code": 3001}),
        json!({"object": "error", "message": json!({"detail": detail}).to_string(), "type": "internal_error_proxy"}),
        json!({"detail": detail}),
    ] {
        assert_eq!(of_body(422, &mistral.to_string()), adapt(refused), "{mistral}");
    }

    let fireworks = "Extra inputs are not permitted, field: 'messages[2].reasoning_content', value: 'secret'";
    assert_eq!(of_message(fireworks), adapt(refused));

    // A parameter of the request is the caller's.
    let parameter = json!({"detail": [{"type": "extra_forbidden", "loc": ["body", "frequency_penalty"], "msg": "Extra inputs are not permitted"}]});
    assert_eq!(of_body(422, &parameter.to_string()), None);
    assert_eq!(of_message("Extra inputs are not permitted, field: 'thinking'"), None);
}

#[test]
fn the_words_of_a_template_by_server() {
    let words = "System message must be at the beginning.";
    let first = || adapt(|compat| compat.system = SystemMessages::First);
    let excerpt = "\n------------\nWhile executing CallExpression at line 85, column 32 in source:\n...first %}↵            \
                   {{- raise_exception('System message must be at the...\n                                           ^\n";
    for said in [
        words.to_owned(),
        format!("{words} {words}"),
        format!("{words} None"),
        format!("{words} at row 1, column 30:\n"),
        format!("{excerpt}Error: Jinja Exception: {words}"),
        format!(
            "Unable to generate parser for this template. Automatic parser generation failed: {excerpt}Error: Jinja Exception: {words}"
        ),
        format!("Error rendering prompt with jinja template: \"{words}\".\n\nThis is usually an issue"),
        format!("Template error: invalid operation: {words} (in <string>:1)"),
    ] {
        let body = json!({"error": {"code": 500, "message": said, "type": "server_error"}}).to_string();
        assert_eq!(of_body(500, &body), first(), "{said}");
        assert_eq!(of_body(500, &json!({"error": body}).to_string()), first(), "{said}");
    }

    // Its source alone says nothing.
    assert_eq!(of_message(&format!("{excerpt}Error: Unknown method: strip")), None);
}

#[test]
fn roles_by_server() {
    let deepseek = "Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool` at line 1 column 60";
    assert_eq!(of_message(deepseek), adapt(|compat| compat.no_developer = true));
    assert_eq!(
        of_message("developer is not one of ['system', 'assistant', 'user', 'tool', 'function'] - 'messages.[0].role'"),
        adapt(|compat| compat.no_developer = true)
    );

    let mistral = r#"{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order","param":null,"code":"3230"}"#;
    assert_eq!(of_body(400, mistral), adapt(|compat| compat.alternates = true));
    assert_eq!(
        of_message("Unexpected role 'system' after role 'assistant'"),
        adapt(|compat| compat.system = SystemMessages::First)
    );
}

#[test]
fn ids_by_server() {
    let openai = "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 300 instead.";
    assert_eq!(of_message(openai), adapt(|compat| compat.call_ids = CallIdForm::Plain40));

    let responses = "Invalid 'input[3].call_id': string too long. Expected a string with maximum length 64, but got a string with length 300 instead.";
    assert_eq!(of_message(responses), adapt(|compat| compat.call_ids = CallIdForm::AtMost64));
    // The id of an element is its maker's.
    assert_eq!(of_message(&responses.replace("call_id", "id")), Some(Remedy::WithoutEncrypted));
    // One text of a million characters.
    assert_eq!(of_message(&responses.replace("call_id", "content")), None);

    let anthropic = "messages.53.content.2.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'";
    assert_eq!(of_message(anthropic), adapt(|compat| compat.call_ids = CallIdForm::Plain64));
}

#[test]
fn encrypted_elements_by_server() {
    for body in [
        r#"{"error":{"message":"The encrypted content gAAA...DQ== could not be verified. Reason: Encrypted content could not be decrypted or parsed.","type":"invalid_request_error","param":null,"code":"invalid_encrypted_content"}}"#,
        r#"{"error":{"message":"new words","code":"invalid_encrypted_content"}}"#,
        r#"{"error":{"message":"reasoning encrypted_content was not issued to this caller","type":"invalid_request_error","code":null}}"#,
        r#"{"code":"invalid-argument","error":"Could not decrypt the provided encrypted_content. Ensure the value is the unmodified encrypted_content from a previous response."}"#,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}"#,
        r#"{"message":"The model returned the following errors: messages.1.content.0: Invalid `signature` in `thinking` block"}"#,
    ] {
        assert_eq!(of_body(400, body), Some(Remedy::WithoutEncrypted), "{body}");
    }
}

#[test]
fn images_by_server() {
    let none = || adapt(|compat| compat.media.images = Some(0));
    let deepseek = "Failed to deserialize the JSON body into the target type: messages[1]: unknown variant `image_url`, expected `text` at line 1 column 746109";
    assert_eq!(of_message(deepseek), none());
    assert_eq!(of_message("At most 0 image(s) may be provided in one request."), none());
    assert_eq!(
        of_message("Too many images provided. This model supports up to 5 images"),
        adapt(|compat| compat.media.images = Some(5))
    );

    let many = "messages.0.content.2.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels";
    let expected = adapt(|compat| {
        compat.media.pixels = Some(2000);
        compat.media.many_images = Some(21);
    });
    assert_eq!(of_message(many), expected);
}

#[test]
fn sources_have_a_month() {
    let sources = GROUPS.iter().flat_map(|group| group.wordings).chain(RATES).chain(PREFIXES);
    for (wording, source) in sources {
        let month = source.rsplit(' ').next().unwrap_or_default();
        let is_month = month.len() == 7 && month.starts_with("202") && month.chars().nth(4) == Some('-');
        assert!(is_month, "{wording}: {source}");
    }
}

#[test]
fn fields_are_shown_without_the_message() {
    let fields = ErrorFields { code: Some("c"), kind: None, message: "secret" };
    assert_eq!(format!("{fields:?}"), r#"ErrorFields { code: Some("c"), kind: None, .. }"#);
}

proptest! {
    #[test]
    fn any_text_is_read(text in "\\PC*", status in 0..600_u16) {
        let _ = of_body(status, &text);
        let _ = of_message(&text);
        let _ = Remedy::of_body(None, json!({"error": {"message": text}}).to_string().as_bytes());
    }

    #[test]
    fn any_bytes_are_read(bytes: Vec<u8>) {
        let _ = Remedy::of_body(None, &bytes);
    }

    /// Text that a user wrote and a server put before a wording keeps it from being understood.
    #[test]
    fn a_wording_after_other_text_is_not_understood(text in "[a-z ]{1,40}", group in 0..GROUPS.len(), index in 0..64_usize) {
        let group = &GROUPS[group];
        let (wording, _) = group.wordings[index % group.wordings.len()];
        let message = format!("The text {text} {}", example_of(group.meaning, wording));
        prop_assert_eq!(of_message(&message), None);
    }

    #[test]
    fn parts_of_wordings_are_read(group in 0..GROUPS.len(), index in 0..64_usize, cut in 0..200_usize, tail in "\\PC{0,20}") {
        let group = &GROUPS[group];
        let (wording, _) = group.wordings[index % group.wordings.len()];
        let message: String = example_of(group.meaning, wording).chars().take(cut).collect();
        let _ = of_message(&format!("{message}{tail}"));
    }
}

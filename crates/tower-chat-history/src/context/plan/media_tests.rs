//! Properties of prompts for readers that limit media.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use serde_json::{Value, json};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{
    AnthropicMessages, ChatCompletions, Compat, Dialect, Exchange, ExchangeId, Incarnation, MediaCompat, Message,
    OpenAiResponses, Recorded, Revision, Seq, Window,
};

use super::{Conditions, LoadedWindow, MediaSize, Plan, PlanInput, plan_prompt, tests::plan_input};

/// A part of a message.
#[derive(Clone, Copy, Debug)]
enum Part {
    Text,
    /// An image of this size in pixels and this number of further bytes.
    Image(u32, u16),
    Url,
    Document(u16),
    Audio(u16),
}

use Part::{Audio, Document, Image, Text, Url};

fn any_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        4 => Just(Text),
        4 => (1_u32..4_000, 0_u16..3_000).prop_map(|(side, bytes)| Image(side, bytes)),
        1 => Just(Url),
        1 => (0_u16..3_000).prop_map(Document),
        1 => (0_u16..3_000).prop_map(Audio),
    ]
}

/// The parts of the questions of a log.
fn any_log() -> impl Strategy<Value = Vec<Vec<Part>>> {
    prop::collection::vec(prop::collection::vec(any_part(), 1..4), 1..14)
}

fn any_limits() -> impl Strategy<Value = MediaCompat> {
    let images = prop::option::of(0_u32..8);
    let pixels = prop::option::of((1_000_u32..3_000, prop::option::of(1_u32..8)));
    let bytes = prop::option::of(0_u64..20_000);
    (images, pixels, any::<bool>(), bytes).prop_map(|(images, pixels, only_images, bytes)| {
        let mut limits = MediaCompat::new();
        limits.images = images;
        limits.pixels = pixels.map(|(pixels, _)| pixels);
        limits.many_images = pixels.and_then(|(_, many)| many);
        limits.only_images = only_images;
        limits.bytes = bytes;
        limits
    })
}

/// Returns the beginning of a PNG image with these sides, and with further bytes.
fn png(side: u32, more: u16) -> String {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend([side.to_be_bytes(), 10_u32.to_be_bytes()].concat());
    png.extend([8, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    png.extend(vec![0; more.into()]);
    STANDARD.encode(png)
}

fn part(part: Part, text: &str) -> Value {
    let url = |kind: &str, data: String| format!("data:{kind};base64,{data}");
    let zeros = |bytes: u16| STANDARD.encode(vec![0; bytes.into()]);
    match part {
        Text => json!({"type": "text", "text": text}),
        Image(side, more) => json!({"type": "image_url", "image_url": {"url": url("image/png", png(side, more))}}),
        Url => json!({"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}),
        Document(bytes) => json!({"type": "file", "file": {"file_data": url("application/pdf", zeros(bytes))}}),
        Audio(bytes) => json!({"type": "input_audio", "input_audio": {"data": zeros(bytes), "format": "wav"}}),
    }
}

fn question(number: usize, parts: &[Part]) -> Message {
    let parts = parts.iter().enumerate().map(|(at, of)| part(*of, &format!("t{number}.{at}")));
    let content: Vec<Value> = parts.collect();
    Message::from_json(json!({"role": "user", "content": content}).to_string()).unwrap()
}

fn recorded(at: usize, messages: Vec<Message>) -> Recorded {
    Recorded::new(Seq::new(at as u64), Exchange::new(ExchangeId::generate(), messages).with_reply_len(1))
}

fn log(questions: &[Vec<Part>]) -> Vec<Recorded> {
    let turn = |(at, parts): (usize, &Vec<Part>)| {
        recorded(at, vec![question(at, parts), Message::assistant(format!("a{at}"))])
    };
    questions.iter().enumerate().map(turn).collect()
}

fn plan(log: &[Recorded], input: &[Message], limits: MediaCompat) -> Plan {
    let revision = Revision::new(Incarnation::random(), log.len() as u64);
    let window = LoadedWindow::read(Window::new(revision, None, log.to_vec(), false)).unwrap();
    let compat = Compat::new().media(limits);
    let conditions = Conditions { compat: &compat, ..Conditions::unknown() };
    plan_prompt(&PlanInput { conditions, ..plan_input(&window, input) }).unwrap()
}

/// The media of a prompt, as they are written.
#[derive(Debug, Default, PartialEq)]
struct Found {
    images: usize,
    others: usize,
    /// Images and documents.
    counted: usize,
    bytes: u64,
    longest: u32,
}

fn found(messages: &[Message]) -> Found {
    let mut found = Found::default();
    for message in messages {
        let value: Value = serde_json::from_str(message.json()).unwrap();
        for part in value["content"].as_array().into_iter().flatten() {
            let data = match part["type"].as_str().unwrap() {
                "image_url" => {
                    found.images += 1;
                    found.counted += 1;
                    let url = part["image_url"]["url"].as_str().unwrap();
                    let data = url.strip_prefix("data:image/png;base64,").map(|data| STANDARD.decode(data).unwrap());
                    let side = data.map_or(0, |png| u32::from_be_bytes(png[16..20].try_into().unwrap()));
                    found.longest = found.longest.max(side);
                    Some(url).filter(|url| url.starts_with("data:"))
                }
                "file" => {
                    found.others += 1;
                    found.counted += 1;
                    part["file"]["file_data"].as_str()
                }
                "input_audio" => {
                    found.others += 1;
                    part["input_audio"]["data"].as_str()
                }
                _ => None,
            };
            found.bytes += data.map_or(0, |data| data.len() as u64);
        }
    }
    found
}

const PLACEHOLDERS: [&str; 3] = ["[image left out]", "[document left out]", "[audio left out]"];

/// Returns the texts of all messages, in order. With `all`, each medium is a text, too.
fn texts(messages: &[Message], all: bool) -> Vec<String> {
    let mut texts = Vec::new();
    for message in messages {
        let value: Value = serde_json::from_str(message.json()).unwrap();
        texts.extend(value["content"].as_str().map(str::to_owned));
        for part in value["content"].as_array().into_iter().flatten() {
            let text = match part["type"].as_str().unwrap() {
                "image_url" => PLACEHOLDERS[0],
                "file" => PLACEHOLDERS[1],
                "input_audio" => PLACEHOLDERS[2],
                _ => part["text"].as_str().unwrap(),
            };
            texts.extend((all || !PLACEHOLDERS.contains(&text)).then(|| text.to_owned()));
        }
    }
    texts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(400)))]

    #[test]
    fn the_limits_hold_as_far_as_the_input_allows(questions in any_log(), limits in any_limits()) {
        let log = log(&questions);
        let (last, before) = log.split_last().unwrap();
        let input = &last.exchange.messages[..1];
        let history = plan(before, input, limits).fit.window;
        let (own, others) = (found(input), found(&history));

        if let Some(most) = limits.images {
            prop_assert!(others.images == 0 || others.counted + own.counted <= most as usize);
        }
        if let Some(most) = limits.bytes {
            prop_assert!(others.bytes == 0 || others.bytes + own.bytes <= most);
        }
        if limits.only_images {
            prop_assert_eq!(others.others, 0);
        }
        if let Some(longest) = limits.pixels {
            let is_many = others.images + own.images >= limits.many_images.unwrap_or(0) as usize;
            let is_history_large = others.longest > longest;
            prop_assert!(!(is_many && is_history_large));
            let may_be_few = limits.many_images.is_some();
            prop_assert!(!(may_be_few && is_many && own.longest > longest) || others.images == 0);
        }
    }

    #[test]
    fn texts_and_their_order_stay(questions in any_log(), limits in any_limits()) {
        let log = log(&questions);
        let input = [Message::user("question")];
        let whole = plan(&log, &input, MediaCompat::new()).fit;
        let sent = plan(&log, &input, limits).fit;
        prop_assert_eq!(texts(&sent.window, true), texts(&whole.window, true), "a text for each medium");
        prop_assert_eq!(texts(&sent.window, false), texts(&whole.window, false));

        let size = |messages: &[Message]| MediaSize::of(messages);
        let left = size(&sent.window);
        let all = size(&whole.window);
        prop_assert_eq!((left.number + sent.media.number, left.bytes + sent.media.bytes), (all.number, all.bytes));
    }

    #[test]
    fn prompts_begin_with_each_other_until_the_next_step(
        questions in prop::collection::vec(prop::collection::vec(any_part(), 1..3), 20..40),
        images in 2_u32..12,
    ) {
        let log = log(&questions);
        let limits = MediaCompat::new().images(images);
        let mut steps = 0;
        let mut before: Option<(usize, Vec<Message>)> = None;
        for at in 0..log.len() {
            let input = &log[at].exchange.messages[..1];
            let fit = plan(&log[..at], input, limits).fit;
            if let Some((left_out, window)) = before {
                let is_prefix = fit.window.starts_with(&window);
                prop_assert!(is_prefix || fit.media.number > left_out);
                steps += usize::from(!is_prefix);
            }
            before = Some((fit.media.number, fit.window));
        }
        let counted = found(&plan(&log, &[Message::user("q")], MediaCompat::new()).fit.window).counted;
        prop_assert!(steps <= counted / (images as usize / 2) + 1, "{steps} steps for {counted}");
    }
}

#[test]
fn the_oldest_photos_become_texts_in_steps_of_half_of_the_limit() {
    let log = log(&vec![vec![Text, Image(9, 0)]; 14]);
    let left_out = |end: usize| {
        let input = &log[end].exchange.messages[..1];
        plan(&log[..end], input, MediaCompat::new().images(5)).fit.media.number
    };
    let steps: Vec<usize> = (0..14).map(left_out).collect();
    assert_eq!(steps, [0, 0, 0, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10]);

    let sent = plan(&log[..5], &log[5].exchange.messages[..1], MediaCompat::new().images(5)).fit.window;
    let left_out =
        r#"{"content":[{"text":"t1.0","type":"text"},{"type":"text","text":"[image left out]"}],"role":"user"}"#;
    assert_eq!(sent[2].json(), left_out);
    assert!(sent[4].json().contains("image_url"));
}

#[test]
fn a_large_image_of_the_input_leaves_room_for_few_others() {
    let limits = MediaCompat::new().images(100).pixels(2_000, 21);
    let log = log(&vec![vec![Image(1_000, 0)]; 40]);
    let images = |input: Part| found(&plan(&log, &[question(40, &[input])], limits).fit.window).images;
    assert_eq!(images(Image(2_000, 0)), 40);
    assert_eq!(images(Image(2_001, 0)), 10, "at most 20 with that of the input");
}

#[test]
fn the_media_of_all_dialects_become_texts() {
    let data = png(10, 0);
    let source = json!({"type": "base64", "media_type": "image/png", "data": data});
    let pdf = json!({"type": "base64", "media_type": "application/pdf", "data": "AAAA"});
    let url = format!("data:image/png;base64,{data}");
    let mark = json!({"type": "ephemeral"});
    let all: [(&'static dyn Dialect, Value, Value); 4] = [
        (
            &AnthropicMessages,
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "x", "content": [
                    {"type": "text", "text": "a"}, {"type": "image", "source": source},
                ]},
                {"type": "image", "source": source, "cache_control": mark},
                {"type": "document", "source": pdf, "title": "d"},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "b"}},
            ]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "x", "content": [
                    {"type": "text", "text": "a"}, {"type": "text", "text": "[image left out]"},
                ]},
                {"type": "text", "text": "[image left out]", "cache_control": mark},
                {"type": "text", "text": "[document left out]"},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "b"}},
            ]}),
        ),
        (
            &OpenAiResponses,
            json!({"type": "function_call_output", "call_id": "x", "output": [
                {"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": url},
            ]}),
            json!({"type": "function_call_output", "call_id": "x", "output": [
                {"type": "input_text", "text": "a"}, {"type": "input_text", "text": "[image left out]"},
            ]}),
        ),
        (
            &OpenAiResponses,
            json!({"role": "user", "content": [
                {"type": "input_file", "filename": "d.pdf", "file_data": url}, {"type": "input_text", "text": "a"},
            ]}),
            json!({"role": "user", "content": [
                {"type": "input_text", "text": "[document left out]"}, {"type": "input_text", "text": "a"},
            ]}),
        ),
        (
            &ChatCompletions,
            json!({"role": "tool", "tool_call_id": "x", "content": [
                {"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": url}},
                {"type": "video_url", "video_url": {"url": "https://x.test/v"}},
            ]}),
            json!({"role": "tool", "tool_call_id": "x", "content": [
                {"type": "text", "text": "a"}, {"type": "text", "text": "[image left out]"},
                {"type": "text", "text": "[video left out]"},
            ]}),
        ),
    ];
    for (dialect, message, expected) in all {
        let message = Message::in_dialect(dialect, message.to_string()).unwrap();
        let sent = message.without_media(&mut |_, _| true).unwrap();
        assert_eq!(serde_json::from_str::<Value>(sent.json()).unwrap(), expected);
        assert_eq!(message.without_media(&mut |_, _| false), None);
        assert_eq!(sent.without_media(&mut |_, _| true), None, "texts stay");
    }
}

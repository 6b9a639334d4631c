//! Random lists, options and counters.

use proptest::{collection::vec, prelude::*, sample};
use serde_json::{Value, json};
use tower_chat_history::{
    Message,
    tokens::{ByteEstimate, LangChainEstimate, MessageCount, TokenCounter, per_message},
    trim::{Speaker, Trim},
};

use super::message;

fn text() -> impl Strategy<Value = String> {
    let piece = sample::select(vec!["word ", "and ", "\n", "x", "今天", "😀", "\"q\" ", "a longer piece "]);
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn part() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => text().prop_map(|text| json!({"type": "text", "text": text})),
        1 => text().prop_map(Value::from),
        1 => Just(json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}})),
        1 => text().prop_map(|text| json!({"type": "thing", "of": [1.5, text, null]})),
    ]
}

fn content() -> impl Strategy<Value = Value> {
    prop_oneof![3 => text().prop_map(Value::from), 2 => vec(part(), 0..4).prop_map(Value::from)]
}

/// Ids are reused, and some results occur twice.
fn id() -> impl Strategy<Value = &'static str> {
    sample::select(vec!["x", "y", "z"])
}

fn calling(content: &Value, ids: &[&str]) -> Value {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}});
    json!({"role": "assistant", "content": content, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
}

fn result(content: &Value, id: &str) -> Value {
    json!({"role": "tool", "content": content, "tool_call_id": id})
}

/// One message, or several that belong together.
fn step() -> impl Strategy<Value = Vec<Value>> {
    let spoken = (sample::select(vec!["user", "user", "assistant", "system", "developer", "critic"]), content());
    let function = json!({"role": "function", "name": "f", "content": "r"});
    let round = vec(id(), 1..4)
        .prop_flat_map(|ids| (content(), Just(ids.clone()), Just(ids).prop_shuffle(), text(), 0..4_usize));
    prop_oneof![
        6 => (spoken, any::<bool>()).prop_map(|((role, content), named)| {
            let mut fields = json!({"role": role, "content": content});
            if named { fields["name"] = "ann".into(); }
            vec![fields]
        }),
        1 => Just(vec![function]),
        1 => vec(id(), 1..3).prop_map(|ids| vec![calling(&Value::Null, &ids)]),
        1 => (id(), content()).prop_map(|(id, content)| vec![result(&content, id)]),
        // All results, in another order, or only some.
        4 => round.prop_map(|(content, ids, answered, text, missing)| {
            let answered = answered.iter().skip(missing.saturating_sub(2));
            let results = answered.map(|id| result(&Value::from(text.as_str()), id));
            [calling(&content, &ids)].into_iter().chain(results).collect()
        }),
    ]
}

/// Messages with their position in the field `n`.
pub(super) fn any_list() -> impl Strategy<Value = Vec<Message>> {
    let system = proptest::option::of(text().prop_map(|text| vec![json!({"role": "system", "content": text})]));
    (system, vec(step(), 0..8)).prop_map(|(system, steps)| {
        let fields = system.into_iter().chain(steps).flatten().enumerate();
        fields
            .map(|(number, mut fields)| {
                fields["n"] = number.into();
                message(fields)
            })
            .collect()
    })
}

/// All options of a trim.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) first: bool,
    pub(super) max_tokens: u64,
    pub(super) start_on: Vec<Speaker>,
    pub(super) end_on: Vec<Speaker>,
    pub(super) include_system: bool,
    /// `None` keeps no partial message, `Some(false)` keeps lines, `Some(true)` keeps words.
    pub(super) partial: Option<bool>,
    pub(super) pairs: bool,
}

pub(super) fn pieces(text: &str, by_words: bool) -> Vec<String> {
    text.split_inclusive(if by_words { ' ' } else { '\n' }).map(str::to_owned).collect()
}

impl Options {
    pub(super) fn of<C: TokenCounter + ?Sized>(&self, messages: &[Message], counter: &C) -> Vec<Message> {
        if self.first {
            return self.with_all(Trim::first(self.max_tokens)).apply(messages, counter);
        }
        let trim = self.with_all(Trim::last(self.max_tokens)).start_on(self.start_on.iter().copied());
        if self.include_system { trim.include_system() } else { trim }.apply(messages, counter)
    }

    fn with_all<S>(&self, trim: Trim<S>) -> Trim<S> {
        let trim = trim.end_on(self.end_on.iter().copied()).keep_tool_pairs(self.pairs);
        match self.partial {
            None => trim,
            Some(false) => trim.allow_partial(),
            Some(true) => trim.allow_partial_by(|text| pieces(text, true)),
        }
    }
}

pub(super) fn any_options() -> impl Strategy<Value = Options> {
    let speakers = || {
        let some = [Speaker::System, Speaker::User, Speaker::Assistant, Speaker::Tool, Speaker::Function];
        prop_oneof![2 => Just(vec![]), 1 => sample::subsequence(some.to_vec(), 1..4)]
    };
    let max_tokens = prop_oneof![0_u64..20, 0_u64..200];
    let options =
        (any::<bool>(), max_tokens, speakers(), speakers(), any::<bool>(), any::<Option<bool>>(), any::<bool>());
    options.prop_map(|(first, max_tokens, start_on, end_on, include_system, partial, pairs)| Options {
        first,
        max_tokens,
        start_on,
        end_on,
        include_system: include_system && !first,
        partial,
        pairs,
    })
}

fn by_characters(message: &Message) -> u32 {
    u32::try_from(message.text().chars().count()).unwrap()
}

/// The last one counts 0 for empty texts.
pub(super) fn counters() -> [Box<dyn TokenCounter>; 4] {
    [
        Box::new(ByteEstimate::new()),
        Box::new(LangChainEstimate::new()),
        Box::new(MessageCount::new()),
        Box::new(per_message(by_characters)),
    ]
}

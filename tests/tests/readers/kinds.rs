//! The conversations.

use serde_json::{Value, json};
use tests::rng::SeededRng;

use super::reader::{Feature, Reader};

/// A kind of conversations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// The features that a reader must take.
    needs: &'static [Feature],
    /// A feature that a reader must not take.
    lacks: Option<Feature>,
    pub(crate) target: Target,
    /// The number of conversations with each reader.
    pub(crate) repeats: u64,
    /// Makes the conversation of a seed.
    pub(crate) conversation: fn(&Reader, u64) -> Conversation,
}

/// The most that a reader may refuse. Nothing is ever refused at the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Nothing: these prompts have forms that every reader takes.
    NoRefusal,
    /// One request of a conversation: the first refusal tells what the reader does not take.
    OneRefusal,
    /// Some requests: there are several things that the reader does not take.
    SomeRefusals,
    /// No target: counted only.
    None,
}

impl Kind {
    const fn new(name: &'static str, target: Target, conversation: fn(&Reader, u64) -> Conversation) -> Self {
        Self { name, needs: &[], lacks: None, target, repeats: 1, conversation }
    }

    const fn needs(mut self, features: &'static [Feature]) -> Self {
        self.needs = features;
        self
    }

    const fn lacks(mut self, feature: Feature) -> Self {
        self.lacks = Some(feature);
        self
    }

    const fn repeats(mut self, conversations: u64) -> Self {
        self.repeats = conversations;
        self
    }

    /// Returns `true` if the reader takes such conversations.
    pub(crate) fn is_for(&self, reader: &Reader) -> bool {
        self.needs.iter().all(|feature| reader.takes(*feature)) && !self.lacks.is_some_and(|lacks| reader.takes(lacks))
    }
}

/// Returns all kinds, those first that have nothing but forms that every reader takes.
pub(crate) fn kinds() -> Vec<Kind> {
    use Feature::{Images, Parallel, Reasoning, System, Tools};
    use Target::{NoRefusal, OneRefusal};

    vec![
        Kind::new("plain", NoRefusal, |reader, _| Conversation::new(reader, questions(0..4))),
        Kind::new("summary", NoRefusal, |reader, _| {
            Conversation::new(reader, questions(0..20)).memory(Memory::Summary)
        }),
        Kind::new("recall", NoRefusal, |reader, _| Conversation::new(reader, questions(0..17)).memory(Memory::Recall)),
        Kind::new("summary and recall", NoRefusal, |reader, _| {
            Conversation::new(reader, questions(0..17)).memory(Memory::SummaryAndRecall)
        }),
        Kind::new("abandoned call", NoRefusal, abandoned).needs(&[Tools]),
        Kind::new("abandoned parallel calls", NoRefusal, abandoned_parallel).needs(&[Parallel]),
        Kind::new("one of two results", Target::None, one_of_two).needs(&[Parallel]),
        Kind::new("tool round", NoRefusal, |reader, _| around(reader, calls(1, 1))).needs(&[Tools]),
        Kind::new("parallel calls", NoRefusal, |reader, _| around(reader, calls(1, 2))).needs(&[Parallel]),
        Kind::new("reasoning", NoRefusal, |reader, _| around(reader, vec![reasoning(1)])).needs(&[Reasoning]),
        Kind::new("blank reply", NoRefusal, |reader, _| around(reader, vec![blank(1)])),
        Kind::new("cut-off arguments", NoRefusal, |reader, _| around(reader, broken(1, CUT_OFF))).needs(&[Tools]),
        Kind::new("other broken arguments", NoRefusal, other_arguments).needs(&[Tools]),
        Kind::new("partial reply", NoRefusal, |reader, _| around(reader, vec![partial(1)])),
        Kind::new("images", NoRefusal, |reader, _| around(reader, vec![image(1)])).needs(&[Images]),
        Kind::new("random", NoRefusal, random).repeats(4),
        Kind::new("parallel calls of another model", OneRefusal, |reader, _| around(reader, elsewhere(calls(1, 2))))
            .needs(&[Tools])
            .lacks(Parallel),
        Kind::new("reasoning of another model", OneRefusal, |reader, _| around(reader, elsewhere(vec![reasoning(1)])))
            .lacks(Reasoning),
        Kind::new("images for another model", OneRefusal, |reader, _| around(reader, elsewhere(vec![image(1)])))
            .lacks(Images),
        Kind::new("call ids of another model", OneRefusal, other_ids).needs(&[Tools]),
        Kind::new("two user messages in a question", OneRefusal, |reader, _| {
            around(reader, elsewhere(vec![two_messages(1)]))
        }),
        Kind::new("a system message in a question", OneRefusal, |reader, _| {
            around(reader, elsewhere(vec![system_between(1)]))
        })
        .needs(&[System]),
        // A refusal of the caller's own head is the caller's, unless the table has the reader.
        Kind::new("a head for models with system messages", Target::None, |reader, _| Conversation {
            head: Some(head("system")),
            ..Conversation::new(reader, questions(0..6))
        })
        .lacks(System),
        Kind::new("a developer's head", Target::None, |reader, _| Conversation {
            head: Some(head("developer")),
            ..Conversation::new(reader, questions(0..6))
        }),
        Kind::new("random, with another model", Target::SomeRefusals, random_with_another_model).repeats(2),
        Kind::new("calls for models with tools", Target::None, |reader, _| around(reader, elsewhere(calls(1, 1))))
            .lacks(Tools),
    ]
}

/// A conversation as a caller has it.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    /// The message that begins each request.
    pub(crate) head: Option<Value>,
    pub(crate) tools: Value,
    pub(crate) memory: Memory,
    pub(crate) steps: Vec<Step>,
}

/// The fate of messages that leave the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// None leaves.
    Whole,
    Summary,
    Recall,
    SummaryAndRecall,
}

impl Conversation {
    fn new(reader: &Reader, steps: Vec<Step>) -> Self {
        let has_calls = steps.iter().any(|step| step.reply.get("tool_calls").is_some());
        Self {
            head: reader.takes(Feature::System).then(|| head("system")),
            tools: if has_calls { tools() } else { Value::Null },
            memory: Memory::Whole,
            steps,
        }
    }

    const fn memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }
}

/// One request, and the reply that it gets unless the reader refuses it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The messages after those of earlier steps.
    pub(crate) input: Vec<Value>,
    /// The message of the reply.
    pub(crate) reply: Value,
    pub(crate) finish_reason: &'static str,
    /// The reply is a stream that breaks off.
    pub(crate) breaks_off: bool,
    /// Another model replies, which takes everything.
    pub(crate) elsewhere: bool,
}

impl Step {
    fn new(input: Value, reply: Value) -> Self {
        let finish_reason = if reply.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
        Self { input: vec![input], reply, finish_reason, breaks_off: false, elsewhere: false }
    }
}

/// Returns a conversation that contains these steps after a plain question, and six plain questions after them.
fn around(reader: &Reader, steps: Vec<Step>) -> Conversation {
    let mut all = questions(0..1);
    all.extend(steps);
    all.extend(questions(10..16));
    Conversation::new(reader, all)
}

fn elsewhere(steps: Vec<Step>) -> Vec<Step> {
    steps.into_iter().map(|step| Step { elsewhere: true, ..step }).collect()
}

// Messages

fn head(role: &str) -> Value {
    json!({"role": role, "content": "You keep the lists of a household."})
}

const THINGS: [&str; 8] = ["umbrella", "passport", "ladder", "guitar", "toolbox", "tent", "camera", "kettle"];

fn thing(number: usize) -> &'static str {
    THINGS[number % THINGS.len()]
}

fn user(number: usize) -> Value {
    json!({"role": "user", "content": format!("{number}: where did we put the {}?", thing(number))})
}

fn assistant(number: usize) -> Value {
    json!({"role": "assistant", "content": format!("{number}: the {} is in the cellar.", thing(number))})
}

fn tools() -> Value {
    let parameters = json!({"type": "object", "properties": {"thing": {"type": "string"}}, "required": ["thing"]});
    let function = json!({"name": "find", "description": "Finds a thing.", "parameters": parameters});
    json!([{"type": "function", "function": function}])
}

/// Returns an id that every reader takes.
fn call_id(number: usize, call: usize) -> String {
    format!("call{number:03}{call:02}")
}

fn calling(number: usize, arguments: &[&str]) -> Value {
    let calls = arguments.iter().enumerate().map(|(place, arguments)| {
        let function = json!({"name": "find", "arguments": arguments});
        json!({"id": call_id(number, place), "type": "function", "function": function})
    });
    json!({"role": "assistant", "content": null, "tool_calls": calls.collect::<Vec<_>>()})
}

fn result(number: usize, call: usize) -> Value {
    json!({"role": "tool", "tool_call_id": call_id(number, call), "content": format!("{number}: in box {call}.")})
}

/// Returns a conversation with these features, and its tools. No server writes a better one.
pub(crate) fn ideal(features: &[Feature]) -> (Value, Value) {
    let mut steps = questions(0..1);
    for feature in features {
        steps.extend(match feature {
            Feature::System => vec![],
            Feature::Tools => calls(1, 1),
            Feature::Parallel => calls(2, 2),
            Feature::Reasoning => vec![reasoning(3)],
            Feature::Images => vec![image(4)],
        });
    }

    let mut messages = Vec::new();
    if features.contains(&Feature::System) {
        messages.push(head("system"));
    }
    for step in steps {
        messages.extend(step.input);
        messages.push(step.reply);
    }
    messages.push(user(5));
    let has_calls = features.contains(&Feature::Tools) || features.contains(&Feature::Parallel);
    let tools = if has_calls { tools() } else { Value::Null };
    (messages.into(), tools)
}

// Steps. Each takes a number, so that no two of a conversation are the same.

fn questions(numbers: std::ops::Range<usize>) -> Vec<Step> {
    numbers.map(question).collect()
}

fn question(number: usize) -> Step {
    Step::new(user(number), assistant(number))
}

/// A question whose reply is calls, and their results.
fn calls(number: usize, calls: usize) -> Vec<Step> {
    let arguments = vec![r#"{"thing":"ladder"}"#; calls];
    let results = (0..calls).map(|call| result(number, call)).collect();
    vec![
        Step::new(user(number), calling(number, &arguments)),
        Step { input: results, ..Step::new(Value::Null, assistant(number)) },
    ]
}

/// A call whose arguments the reply's limit has cut off. The caller says so in the result.
fn broken(number: usize, arguments: &str) -> Vec<Step> {
    let error = json!({
        "role": "tool",
        "tool_call_id": call_id(number, 0),
        "content": "error: the arguments were cut off",
    });
    let call = Step::new(user(number), calling(number, &[arguments]));
    vec![Step { finish_reason: "length", ..call }, Step::new(error, assistant(number))]
}

const CUT_OFF: &str = r#"{"thing":"lad"#;

fn reasoning(number: usize) -> Step {
    let mut reply = assistant(number);
    reply["reasoning_content"] = "The user looks for something. I have seen it.".into();
    Step::new(user(number), reply)
}

fn blank(number: usize) -> Step {
    Step::new(user(number), json!({"role": "assistant", "content": ""}))
}

fn partial(number: usize) -> Step {
    Step { breaks_off: true, ..question(number) }
}

fn image(number: usize) -> Step {
    let url = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let text = json!({"type": "text", "text": format!("{number}: where is this?")});
    let image = json!({"type": "image_url", "image_url": {"url": url}});
    Step::new(json!({"role": "user", "content": [text, image]}), assistant(number))
}

fn two_messages(number: usize) -> Step {
    let also = json!({"role": "user", "content": "I need it today."});
    Step { input: vec![user(number), also], ..question(number) }
}

/// A question with a reminder, which some programs send after each question.
fn system_between(number: usize) -> Step {
    let system = json!({"role": "system", "content": "The user has moved to another house."});
    Step { input: vec![user(number), system], ..question(number) }
}

// Conversations

/// A new question instead of the results.
fn abandoned(reader: &Reader, _: u64) -> Conversation {
    around(reader, calls(1, 1)[..1].to_vec())
}

fn abandoned_parallel(reader: &Reader, _: u64) -> Conversation {
    around(reader, calls(1, 2)[..1].to_vec())
}

/// One result and a new question instead of two results. The layer refuses this input itself.
fn one_of_two(reader: &Reader, _: u64) -> Conversation {
    let mut steps = calls(1, 2);
    steps[1] = Step { input: vec![result(1, 0), user(2)], ..question(2) };
    around(reader, steps)
}

fn other_arguments(reader: &Reader, _: u64) -> Conversation {
    let steps = ["", "null", "[1]", "not JSON"].iter().enumerate();
    around(reader, steps.flat_map(|(number, arguments)| broken(number + 1, arguments)).collect())
}

/// Ids as OpenAI's models and Kimi make them, and one with a signature of Gemini.
fn other_ids(reader: &Reader, _: u64) -> Conversation {
    let mut steps = Vec::new();
    for (number, id) in
        ["call_iRkc4vlLdRmoTAqRmlZw8pQx", "functions.find:0", &format!("call_1__thought__{}", "Q0FCRA".repeat(60))]
            .iter()
            .enumerate()
    {
        let mut round = calls(number + 1, 1);
        round[0].reply["tool_calls"][0]["id"] = (*id).into();
        round[1].input[0]["tool_call_id"] = (*id).into();
        steps.extend(elsewhere(round));
    }
    around(reader, steps)
}

/// Everything that the reader takes, in any order.
fn random(reader: &Reader, seed: u64) -> Conversation {
    in_any_order(reader, seed, false)
}

/// The same, and what only another model takes.
fn random_with_another_model(reader: &Reader, seed: u64) -> Conversation {
    in_any_order(reader, seed, true)
}

fn in_any_order(reader: &Reader, seed: u64, has_other_model: bool) -> Conversation {
    use Feature::{Images, Parallel, Reasoning, System, Tools};

    let mut rng = SeededRng::new(seed);
    let mut steps = Vec::new();
    while steps.len() < 20 {
        let number = steps.len();
        let (needs, next) = match rng.below(if has_other_model { 14 } else { 12 }) {
            0 => (None, vec![blank(number)]),
            1 => (None, vec![partial(number)]),
            2 => (Some(Reasoning), vec![reasoning(number)]),
            3 => (Some(Images), vec![image(number)]),
            4 => (Some(Tools), calls(number, 1)),
            5 => (Some(Tools), calls(number, 1)[..1].to_vec()),
            6 => (Some(Tools), broken(number, [CUT_OFF, "", "null", "[1]"][rng.index(4)])),
            7 => (Some(Tools), broken(number, CUT_OFF)[..1].to_vec()),
            8 => (Some(Parallel), calls(number, 2)),
            9 => (Some(Parallel), calls(number, 3)[..1].to_vec()),
            10 | 11 => (None, vec![question(number)]),
            12 => (None, elsewhere(vec![two_messages(number)])),
            _ => (Some(System), elsewhere(vec![system_between(number)])),
        };
        let has_calls = matches!(needs, Some(Tools | Parallel));
        if needs.is_none_or(|feature| reader.takes(feature)) {
            steps.extend(next);
        } else if has_other_model && (!has_calls || reader.takes(Tools)) {
            steps.extend(elsewhere(next));
        } else {
            steps.push(question(number));
        }
    }
    steps.extend(questions(100..104));
    let memory = [Memory::Whole, Memory::Summary, Memory::Recall, Memory::SummaryAndRecall];
    Conversation::new(reader, steps).memory(*rng.pick(&memory))
}

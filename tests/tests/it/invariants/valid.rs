//! Invariant 2: prompts are valid.

use std::sync::Arc;

use futures_util::future::join_all;
use proptest::prelude::*;
use serde_json::Value;
use tests::{BOTH_KINDS, CallKind, Chat, Storage, check, over_every_store, request};
use tokio::task::JoinHandle;
use tower_chat_history::{
    BoxError, ContextOptions, ConversationId, HistoryOptions, HistoryStore as _, HistoryStoreExt as _, InConversation,
    Message, store::LoadLimit, view::View,
};
use tower_chat_history_test::{MockLlm, Reply, check_chat_rules};

over_every_store! {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    invariant_2_prompts_are_valid_and_begin_with_the_prompt_before,
    invariant_2_a_late_answer_to_earlier_calls_with_the_same_ids_keeps_the_newest_round,
    invariant_2_prompts_are_valid_with_a_load_limit,
}

fn calls(ids: &[&str]) -> Message {
    let call = |id: &&str| format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{"}}}}"#);
    let calls: Vec<String> = ids.iter().map(call).collect();
    Message::from_json(format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(","))).unwrap()
}

/// Messages that occur in logs but are not understood by providers, or by the types of async-openai.
const ODD: [&str; 18] = [
    r#"{"role":"assistant","content":""}"#,
    r#"{"role":"assistant","content":"e","tool_calls":[]}"#,
    r#"{"role":"assistant","tool_calls":[]}"#,
    r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]}]}"#,
    r#"{"role":"assistant","content":[]}"#,
    r#"{"role":"assistant","audio":{"data":"…"}}"#,
    r#"{"role":"assistant","refusal":{"odd":1}}"#,
    r#"{"role":"assistant","function_call":"odd"}"#,
    r#"{"role":"assistant","function_call":{"name":"f","arguments":"{"}}"#,
    r#"{"role":"assistant","tool_calls":"odd"}"#,
    r#"{"role":"assistant","tool_calls":[{}]}"#,
    r#"{"role":"assistant","content":"t","tool_calls":[{"id":"x","type":"custom","custom":{"name":"g","input":"i"}}]}"#,
    r#"{"role":"tool","content":"without an id"}"#,
    r#"{"role":"narrator","content":"n"}"#,
    r#"{"role":"function","name":"f","content":"r"}"#,
    r#"{"role":"user","content":{"odd":1}}"#,
    r#"{"role":"user","content":[{"type":"video_url"}]}"#,
    r#"{"role":"user"}"#,
];

fn any_ids() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(vec!["x", "y", "z"], 1..=3).prop_shuffle()
}

/// A message of any log: orphans, late and repeated results, reused ids, blank messages.
fn any_logged() -> impl Strategy<Value = Message> {
    prop_oneof![
        2 => Just(Message::user("u")),
        2 => Just(Message::assistant("a")),
        1 => Just(Message::system("s")),
        3 => any_ids().prop_map(|ids| calls(&ids)),
        4 => prop::sample::select(vec!["x", "y", "z"]).prop_map(|id| Message::tool(id, "r")),
        3 => prop::sample::select(ODD.to_vec()).prop_map(|json| Message::from_json(json).unwrap()),
    ]
}

#[derive(Clone, Debug)]
enum Say {
    Text,
    Nothing,
    Refusal,
    Calls(Vec<&'static str>),
}

impl Say {
    fn reply(&self) -> Reply {
        match self {
            Self::Text => Reply::text("a"),
            Self::Nothing => Reply::empty(),
            Self::Refusal => Reply::refusal("no"),
            Self::Calls(ids) => Reply::calls(ids.iter().map(|id| (*id, "f", "{}"))),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A question, which supersedes open calls.
    Ask(Say),
    /// A question after a complete tool round of the caller.
    AskWithRound(Say),
    /// The results of the open calls in reverse order, with or without a question after them.
    Answer(Say, bool),
    /// Like `Answer`, but the reply arrives with `Finish`, or at the end.
    AnswerSlowly(Say),
    /// Releases the slow replies.
    Finish,
}

fn any_step() -> impl Strategy<Value = (Step, CallKind)> {
    let say = || {
        prop_oneof![
            3 => Just(Say::Text),
            1 => Just(Say::Nothing),
            1 => Just(Say::Refusal),
            4 => any_ids().prop_map(Say::Calls),
        ]
    };
    let step = prop_oneof![
        3 => say().prop_map(Step::Ask),
        1 => say().prop_map(Step::AskWithRound),
        4 => (say(), any::<bool>()).prop_map(|(say, question)| Step::Answer(say, question)),
        3 => say().prop_map(Step::AnswerSlowly),
        2 => Just(Step::Finish),
    ];
    (step, prop::sample::select(BOTH_KINDS.to_vec()))
}

type Slow = (tokio::sync::oneshot::Sender<()>, JoinHandle<Result<String, BoxError>>);

struct Talk {
    chat: Chat,
    id: ConversationId,
    storage: Arc<Storage>,
    slow: Vec<Slow>,
    /// The input of each call, in the order in which the calls reached the model.
    inputs: Vec<Input>,
}

/// The input of a call.
#[derive(Clone, Copy, Debug)]
struct Input {
    /// The number of its messages.
    messages: usize,
    /// `true` if another call was waiting for its reply.
    is_concurrent: bool,
}

impl Talk {
    /// Returns the ids of the calls that are open now.
    async fn open(&self) -> Vec<String> {
        let mut view = View::default();
        view.extend(&self.storage.store.conversation(&self.id).messages().await.unwrap());
        view.open().ids().map(|id| id.as_str().to_owned()).collect()
    }

    fn call(&mut self, input: Vec<Message>) -> tests::TypedCall {
        self.inputs.push(Input { messages: input.len(), is_concurrent: !self.slow.is_empty() });
        InConversation::new(self.id.clone(), request([Message::system("S")].into_iter().chain(input)))
    }

    async fn step(&mut self, step: Step, kind: CallKind) {
        let mut results: Vec<_> = self.open().await.iter().rev().map(|id| Message::tool(id, "r")).collect();
        let (say, slow) = match step {
            Step::Finish => return self.finish().await,
            Step::Answer(ref say, _) | Step::Ask(ref say) | Step::AskWithRound(ref say) => (say, false),
            Step::AnswerSlowly(ref say) => (say, true),
        };
        self.chat.llm.replies().push(say.reply());
        match step {
            Step::Ask(_) => results = vec![Message::user("u")],
            Step::AskWithRound(_) => {
                results = vec![Message::user("e"), calls(&["own"]), Message::tool("own", "r"), Message::user("u")];
            }
            Step::Answer(_, true) => results.push(Message::user("and?")),
            Step::Answer(..) | Step::AnswerSlowly(_) | Step::Finish => {}
        }
        if results.is_empty() {
            results.push(Message::user("u"));
        }
        let call = self.call(results);
        if slow {
            let release = self.chat.hold_reply();
            let (chat, reached) = (self.chat.clone(), self.inputs.len());
            let mut call = tokio::spawn(async move { chat.call(kind, call).await });
            tokio::select! {
                reply = &mut call => panic!("the call ended although its reply is held: {reply:?}"),
                () = self.chat.reached(reached) => {}
            }
            self.slow.push((release, call));
        } else {
            self.chat.call(kind, call).await.unwrap();
        }
    }

    async fn finish(&mut self) {
        let (released, calls): (Vec<_>, Vec<_>) = self.slow.drain(..).unzip();
        drop(released);
        for reply in join_all(calls).await {
            reply.unwrap().unwrap();
        }
    }
}

/// Returns the messages of each prompt before its input.
fn before_the_input(llm: &MockLlm, inputs: &[Input]) -> Vec<Vec<Value>> {
    let prompts = llm.prompts_json();
    assert_eq!(prompts.len(), inputs.len(), "each call reached the model once");
    let before = prompts.iter().zip(inputs).map(|(prompt, input)| {
        let prompt = prompt.as_array().unwrap();
        prompt[..prompt.len() - input.messages].to_vec()
    });
    before.collect()
}

/// Returns the part of a prompt with which the next one must begin.
///
/// A constant reply before the input's question belongs to the question: what another call stores in the meantime
/// stands before both.
fn kept(before: &[Value], input: Input) -> &[Value] {
    match before {
        [rest @ .., last] if input.is_concurrent && last["content"] == "[no reply]" => rest,
        _ => before,
    }
}

/// Runs a conversation after this log. Each prompt must be valid, and begin with the prompt before it.
async fn converse(storage: &Arc<Storage>, log: Vec<Message>, steps: Vec<(Step, CallKind)>) {
    let id = storage.conversation();
    storage.store.conversation(&id).import(log).await.unwrap();
    let chat = Chat::new(storage, []);
    let mut talk = Talk { chat, id, storage: Arc::clone(storage), slow: Vec::new(), inputs: Vec::new() };
    // The mock refuses a prompt that breaks the rules, and every call must succeed.
    for (step, kind) in steps {
        talk.step(step, kind).await;
    }
    talk.finish().await;
    talk.step(Step::Ask(Say::Text), CallKind::Unary).await;

    for prompt in talk.chat.llm.prompts() {
        assert_eq!(check_chat_rules(&prompt), Ok(()));
    }
    let prefixes = before_the_input(&talk.chat.llm, &talk.inputs);
    for (pair, input) in prefixes.windows(2).zip(&talk.inputs) {
        let kept = kept(&pair[0], *input);
        assert_eq!(pair[1].get(..kept.len()), Some(kept), "the cached prefix is broken");
    }
    // A run with many cases would fill the store.
    storage.store.delete(&talk.id).await.unwrap();
}

async fn invariant_2_prompts_are_valid_and_begin_with_the_prompt_before(storage: Storage) {
    let storage = Arc::new(storage);
    let log = prop::collection::vec(any_logged(), 0..14);
    let steps = prop::collection::vec(any_step(), 1..12);
    check(64, (log, steps), async |(mut log, steps): (Vec<Message>, Vec<_>)| {
        // The import refuses instructions at the beginning.
        log.drain(..log.iter().take_while(|message| message.is_instruction()).count());
        converse(&storage, log, steps).await;
    });
}

async fn invariant_2_a_late_answer_to_earlier_calls_with_the_same_ids_keeps_the_newest_round(storage: Storage) {
    let steps = [
        Step::AnswerSlowly(Say::Text),
        Step::Ask(Say::Nothing),
        Step::Ask(Say::Calls(vec!["y", "x", "z"])),
        Step::Answer(Say::Nothing, false),
        Step::AnswerSlowly(Say::Calls(vec!["x"])),
        Step::Finish,
    ];
    let log = vec![Message::user("u"), calls(&["x", "z", "y"])];
    converse(&Arc::new(storage), log, steps.map(|step| (step, CallKind::Unary)).to_vec()).await;
}

async fn invariant_2_prompts_are_valid_with_a_load_limit(storage: Storage) {
    let storage = Arc::new(storage);
    let steps = prop::collection::vec(any_step(), 8..24);
    check(24, (steps, 1..12_usize), async |(steps, messages): (Vec<_>, usize)| {
        let options =
            HistoryOptions::new().context(ContextOptions::new().load_limit(LoadLimit::new(messages, 1 << 20).unwrap()));
        let (chat, id) = (Chat::with_options(&storage, [], options), storage.conversation());
        let mut talk = Talk { chat, id, storage: Arc::clone(&storage), slow: Vec::new(), inputs: Vec::new() };
        for (step, kind) in steps {
            talk.step(step, kind).await;
        }
        talk.finish().await;
        assert!(talk.chat.llm.prompts().iter().all(|prompt| check_chat_rules(prompt).is_ok()));
    });
}

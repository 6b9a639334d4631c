//! Random conversations: whatever is cut, abandoned or changed, the providers refuse nothing.

use proptest::{prelude::*, test_runner::TestRunner};
use tower_chat_history::{ContextBudget, ContextOptions, budget::Watermarks};

use super::*;

/// A step of a conversation.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A question that is answered with this many calls. If calls are open, they are abandoned.
    Ask(usize),
    /// The results of the open calls, which are answered with this many calls.
    Answer(usize),
    /// Other instructions, and a question.
    ChangeHead,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0usize..4).prop_map(Step::Ask),
        5 => (0usize..3).prop_map(Step::Answer),
        1 => Just(Step::ChangeHead),
    ]
}

/// Thinks as the question says, and makes as many calls as it says: `3 calls`.
fn replies() -> Replies {
    Replies::rules(|messages| {
        let last = messages.last().unwrap().text();
        let calls: usize = last.split(' ').next().unwrap().parse().unwrap();
        let reply = match calls {
            0 => Reply::text(format!("after {}", messages.len())),
            _ => Reply::calls((0..calls).map(|call| (format!("c{}-{call}", messages.len()), "f", "{}"))),
        };
        match messages.len() % 3 {
            0 => reply.thinking("hm"),
            1 => reply.thinking("a").redacted_thinking().thinking("b"),
            _ => reply,
        }
    })
}

struct Case {
    provider: usize,
    integration: (Integration, bool),
    turns: usize,
    budget: Option<u32>,
    steps: Vec<Step>,
}

impl Case {
    async fn run(&self) -> Result<(), TestCaseError> {
        let (provider, name) = PROVIDERS[self.provider];
        let mut context = ContextOptions::new().watermarks(Watermarks::last_turns(self.turns));
        if let Some(tokens) = self.budget {
            context = context.budget(ContextBudget::tokens(tokens).reply_reserve(100));
        }
        let options = HistoryOptions::new().context(context);
        let mut chat = Chat::start(provider, Some(name), replies(), options).await;
        for step in &self.steps {
            let log = chat.log().await;
            let open = log.last().and_then(|last| last["tool_calls"].as_array().cloned()).unwrap_or_default();
            let input = match *step {
                Step::Ask(calls) => vec![user(&format!("{calls} calls"))],
                Step::Answer(_) if open.is_empty() => vec![user("1 call")],
                Step::Answer(calls) => {
                    let answered = |call: &Value| json!({"role": "tool", "tool_call_id": call["id"], "content": format!("{calls} calls")});
                    open.iter().map(answered).collect()
                }
                Step::ChangeHead => {
                    chat.system = format!("S{}", log.len());
                    vec![user("1 call")]
                }
            };
            let said = chat.say(self.integration, &input).await;
            prop_assert!(said.is_ok(), "{:?} at {:?} of {:?}: {:?}", provider, step, self.steps, said);
        }
        Ok(())
    }
}

#[test]
fn no_prompt_is_refused() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let case = (
        0..PROVIDERS.len(),
        prop::sample::select(CARRYING.to_vec()),
        1usize..6,
        prop::option::of(1_500u32..6_000),
        prop::collection::vec(step(), 1..14),
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = TestRunner::new(config).run(&case, |(provider, integration, turns, budget, steps)| {
        runtime.block_on(Case { provider, integration, turns, budget, steps }.run())
    });
    run.unwrap();
}

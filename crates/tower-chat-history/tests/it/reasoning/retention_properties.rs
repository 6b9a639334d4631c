//! A prune cuts no turn that goes on, and the log stays bounded, whichever engines the calls reach.

use std::sync::Arc;

use proptest::prelude::*;
use test_providers::signing::Say;
use tower_chat_history::{Engine, HistoryOptions, MemoryStore, Retention};
use tower_chat_history_conformance::shorthand::cases;

use super::{Talk, answers, asks, question, result};

const ENGINES: usize = 3;

/// A call of a turn: the engine that it reaches.
#[derive(Clone, Debug)]
struct Call {
    engine: usize,
    /// True if the engine's process was started anew, so that it has counted nothing.
    restarted: bool,
}

fn any_call() -> impl Strategy<Value = Call> {
    (0..ENGINES, prop::bool::weighted(0.1)).prop_map(|(engine, restarted)| Call { engine, restarted })
}

/// Returns the calls of a turn, of which all but the last are answered with tool calls.
fn any_turn() -> impl Strategy<Value = Vec<Call>> {
    prop::collection::vec(any_call(), 1..5)
}

fn engine(store: &Arc<MemoryStore>, kept: usize) -> Engine {
    Engine::with_retention(Arc::clone(store), HistoryOptions::new(), Retention::LastTurns(kept))
}

/// Makes a call of a turn through its engine. Returns the number of messages whose reasoning was left out.
async fn reasoning_left_out_of_call(
    talk: &mut Talk,
    engines: &mut [Engine],
    kept: usize,
    call: &Call,
    at: usize,
    last: bool,
) -> usize {
    if call.restarted {
        engines[call.engine] = engine(&talk.store, kept);
    }
    talk.engine = engines[call.engine].clone();
    let input = if at == 0 { question() } else { result() };
    // Not every reply of a turn has reasoning.
    let says = match (last, at % 2) {
        (false, 0) => asks().to_vec(),
        (false, _) => asks()[1..].to_vec(),
        (true, 0) => answers().to_vec(),
        (true, _) => vec![Say::Text("so".into())],
    };
    talk.call(input, &says).await.reasoning_left_out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(16)))]

    #[test]
    fn no_turn_is_cut_while_it_goes_on(turns in prop::collection::vec(any_turn(), 1..120), kept in 1usize..24) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut talk = Talk::with(|store| engine(&store, kept));
            let mut engines = [(); ENGINES].map(|()| engine(&talk.store, kept));
            for turn in &turns {
                // A prune at the end of an earlier turn has changed the prompt of the turns before this one.
                let (mut of_others, mut first) = (None, None);
                for (at, call) in turn.iter().enumerate() {
                    let left_out =
                        reasoning_left_out_of_call(&mut talk, &mut engines, kept, call, at, at + 1 == turn.len()).await;
                    prop_assert_eq!(left_out, *of_others.get_or_insert(left_out));
                    if at + 1 < turn.len() {
                        let now = talk.window().await.exchanges[0].seq;
                        prop_assert_eq!(now, *first.get_or_insert(now), "nothing is pruned within a turn");
                    }
                }
                let exchanges = talk.window().await.exchanges;
                let stored = exchanges.iter().filter(|recorded| recorded.exchange.opens_turn()).count();
                // Each engine may have added n/4 turns since the last prune.
                prop_assert!(stored <= kept + ENGINES * (kept / 4) + 1, "{stored} turns are stored");
            }
            Ok(())
        })?;
    }
}

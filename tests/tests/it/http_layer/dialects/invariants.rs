//! Invariants of `ARCHITECTURE.md`.

use test_providers::formats::Api;
use tests::{Storage, over_every_store};
use tower_chat_history::{ContextOptions, HistoryOptions, store::LoadLimit};
use tower_chat_history_test::Op;

use super::{Answer, Talk};

over_every_store! {
    #[tokio::test]
    invariant_1_the_log_is_lossless,
    invariant_2_prompts_begin_with_the_prompt_before,
    invariant_8_conversations_are_isolated,
    invariant_9_a_turn_costs_one_bounded_load_and_one_append,
}

/// Returns messages with details that a log must not change.
fn odd(api: Api) -> (String, String) {
    // A lone surrogate of an input changes later prompts, and thinking after it is left out. One of a reply does not.
    let user = r#"{ "content" :"\ud83d\ude00 \u00e9 \/ é","n":[1.0,1e400,0.10,-0],"role":"user" }"#;
    let reply = match api {
        Api::Chat => r#"{"role":"assistant", "content":"\ud83d","x":[1.0,-0],"x":1}"#,
        Api::Messages => {
            r#"{"role":"assistant","content":[ {"type":"thinking","thinking":"","signature":"A\/="},{"n":[1.0,-0],"type":"text","text":"\ud83d"} ]}"#
        }
        Api::Responses => {
            r#"{ "type":"message","role":"assistant","phase":"commentary","content":[ {"type":"output_text","text":"\ud83d"} ],"n":[1.0,-0],"n":1}"#
        }
    };
    (user.into(), reply.into())
}

async fn invariant_1_the_log_is_lossless(storage: Storage) {
    for api in Api::ALL {
        let talk = Talk::new(api, &storage);
        let (user, reply) = odd(api);
        talk.call(&[&user], Answer::Whole(200, api.whole(&reply, api.stop()))).await.unwrap();
        talk.ask(true, "u", "a").await;
        let log = [[user, reply], talk.turn("u", "a")].concat();
        talk.check_log(&storage.replica().await, &log).await;
        talk.check_sent(true, &log[..3]);
    }
}

async fn invariant_2_prompts_begin_with_the_prompt_before(storage: Storage) {
    for api in Api::ALL {
        let talk = Talk::new(api, &storage);
        let mut log: Vec<String> = Vec::new();
        for turn in 0..6 {
            let answer = if turn % 2 == 0 { api.call("x") } else { api.said("a") };
            let stop = if turn % 2 == 0 { api.stop_for_calls() } else { api.stop() };
            let input = if turn % 2 == 0 { Api::user("u") } else { api.result("x", "r") };
            talk.call(&[&input], Answer::Whole(200, api.whole(&answer, stop))).await.unwrap();
            log.push(input);
            talk.check_sent(false, &log);
            log.push(answer);
        }
        talk.check_log(&storage, &log).await;
    }
}

async fn invariant_8_conversations_are_isolated(storage: Storage) {
    for api in Api::ALL {
        let talks = [Talk::new(api, &storage), Talk::new(api, &storage)];
        for turn in 0..3 {
            for (number, talk) in talks.iter().enumerate() {
                talk.ask(turn == 1, &format!("u{number}{turn}"), &format!("a{number}{turn}")).await;
            }
        }
        for (number, talk) in talks.iter().enumerate() {
            let log: Vec<String> =
                (0..3).flat_map(|turn| talk.turn(&format!("u{number}{turn}"), &format!("a{number}{turn}"))).collect();
            talk.check_sent(false, &log[..5]);
            talk.check_log(&storage, &log).await;
        }
    }
}

async fn invariant_9_a_turn_costs_one_bounded_load_and_one_append(storage: Storage) {
    const LIMIT: usize = 20;
    let store = &storage.store;
    for api in Api::ALL {
        let limit = ContextOptions::new().load_limit(LoadLimit::new(LIMIT, 1 << 20).unwrap());
        let talk = Talk::with_options(api, &storage, HistoryOptions::new().context(limit));
        for turn in 0..40 {
            let count = || (store.calls(Op::Load), store.calls(Op::Append), store.loaded_messages());
            let before = count();
            talk.ask(turn % 2 == 0, "u", "a").await;
            let after = count();
            assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1), "{api:?}");
            assert!(after.2 - before.2 <= LIMIT, "{api:?}: turn {turn} loaded {} messages", after.2 - before.2);
        }
    }
}

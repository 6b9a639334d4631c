//! Tests of rolling.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use proptest::prelude::*;
use tower_chat_history_context::tokens::{ByteEstimate, TokenCounter, tokens_of};
use tower_chat_history_core::{Message, Usage};

use super::{Rolled, Rolling, Summarized, Summarizer, SummaryCost, SummaryError, SummaryRequest};
use crate::error::BoxError;

const COUNTER: ByteEstimate = ByteEstimate::new();

/// Answers by a script, or else with a text that no other answer has, and remembers what it was asked.
#[derive(Default)]
struct Scripted {
    script: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<SummaryRequest>>,
    said: Mutex<Vec<String>>,
}

enum Answer {
    Say(Summarized),
    Fail,
    Panic,
    Hang,
}

impl Scripted {
    fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self { script: Mutex::new(script.into_iter().collect()), ..Self::default() }
    }

    fn asked(&self) -> MutexGuard<'_, Vec<SummaryRequest>> {
        self.asked.lock().unwrap()
    }
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

#[async_trait]
impl Summarizer for Scripted {
    async fn summarize(&self, request: SummaryRequest) -> Result<Summarized, BoxError> {
        self.asked().push(request);
        let next = self.script.lock().unwrap().pop_front();
        let said = match next {
            None => Summarized::new(format!("s{}", self.asked().len())),
            Some(Answer::Say(said)) => said,
            Some(Answer::Fail) => return Err("secret of the provider".into()),
            Some(Answer::Panic) => panic!("as scripted"),
            Some(Answer::Hang) => std::future::pending().await,
        };
        self.said.lock().unwrap().push(said.text.clone());
        Ok(said)
    }
}

fn cut_off(text: &str) -> Answer {
    let mut said = Summarized::new(text);
    said.finished = false;
    Answer::Say(said)
}

fn say(text: &str) -> Answer {
    Answer::Say(Summarized::new(text))
}

fn rolling(summarizer: &Scripted) -> Rolling<'_> {
    Rolling::new(None, summarizer, &COUNTER, 10, 100)
}

/// 14 tokens.
fn small(number: usize) -> Message {
    Message::user(format!("{number:040}"))
}

async fn roll(summarizer: &Scripted) -> (Result<Rolled, SummaryError>, SummaryCost) {
    let mut rolling = rolling(summarizer);
    rolling.push(&[small(0), small(1)]).await.unwrap();
    (rolling.finish().await, rolling.cost())
}

#[tokio::test]
async fn what_fits_one_call_is_one_call() {
    let said = {
        let mut said = Summarized::new(" short \n");
        (said.model, said.usage) = (Some("m".to_owned()), Some(Usage::new(50, 3)));
        Answer::Say(said)
    };
    let summarizer = Scripted::new([said]);
    let mut rolling = Rolling::new(Some(("before".to_owned(), 2)), &summarizer, &COUNTER, 10, 100);
    for number in 0..7 {
        rolling.push(&[small(number)]).await.unwrap();
    }
    assert!(summarizer.asked().is_empty(), "7 * 14 and 2 are 100");
    let rolled = rolling.finish().await.unwrap();
    assert_eq!((&*rolled.text, rolled.tokens, rolled.model.as_deref()), ("short", 2, Some("m")));
    assert_eq!(rolling.cost(), SummaryCost { calls: 1, input_tokens: 50, output_tokens: 3 });
    let asked = &summarizer.asked()[0];
    assert_eq!((asked.previous.as_deref(), asked.messages.len(), asked.max_tokens), (Some("before"), 7, 10));
}

#[tokio::test]
async fn tokens_that_are_not_reported_are_counted() {
    let summarizer = Scripted::new([say("12345678")]);
    assert_eq!(roll(&summarizer).await.1, SummaryCost { calls: 1, input_tokens: 28, output_tokens: 2 });
}

#[tokio::test]
async fn a_summary_that_is_cut_off_is_asked_for_once_more_and_shorter() {
    let summarizer = Scripted::new([cut_off("a long one that"), say("short")]);
    let (rolled, cost) = roll(&summarizer).await;
    assert_eq!((&*rolled.unwrap().text, cost.calls), ("short", 2));
    {
        let asked = summarizer.asked();
        assert_eq!([asked[0].max_tokens, asked[1].max_tokens], [10, 6]);
        assert_eq!((&asked[0].messages, &asked[0].previous), (&asked[1].messages, &asked[1].previous));
    }

    let summarizer = Scripted::new([cut_off("a"), cut_off("")]);
    assert!(matches!(roll(&summarizer).await.0, Err(SummaryError::CutOff)));
    assert_eq!(summarizer.asked().len(), 2);
}

#[tokio::test]
async fn control_characters_do_not_get_into_a_summary() {
    let mut said = Summarized::new("\u{0}one\ttwo\u{1}\r\nthree\u{7f}\u{85}\n\u{0}");
    said.model = Some("m\u{0}\n".to_owned());
    let rolled = roll(&Scripted::new([Answer::Say(said)])).await.0.unwrap();
    assert_eq!((&*rolled.text, rolled.model.as_deref()), ("one\ttwo\r\nthree", Some("m")));
    let nothing = roll(&Scripted::new([say("\u{0}\n\u{1}")])).await.0;
    assert!(matches!(nothing, Err(SummaryError::Empty)));
}

#[tokio::test]
async fn what_is_not_sound_is_refused() {
    let refused = async |answer: Answer| roll(&Scripted::new([answer])).await.0.unwrap_err();
    assert!(matches!(refused(say(" \n")).await, SummaryError::Empty));
    let long = "x".repeat(41);
    assert!(matches!(refused(say(&long)).await, SummaryError::TooLong { tokens: 11, allowed: 10 }));
    let failed = refused(Answer::Fail).await;
    assert!(matches!(&failed, SummaryError::Failed(source) if source.to_string() == "secret of the provider"));
    assert_eq!(failed.to_string(), "the summarizer failed");
    assert!(matches!(refused(Answer::Panic).await, SummaryError::Panicked));
}

#[tokio::test]
async fn a_summary_has_to_be_smaller_than_what_it_replaces() {
    let of = async |previous: Option<(String, u32)>, text: &str, log: &[Message]| {
        let summarizer = Scripted::new([say(text)]);
        let mut rolling = Rolling::new(previous, &summarizer, &COUNTER, 10, 100);
        rolling.push(log).await.unwrap();
        rolling.finish().await
    };
    // 4 and 2 tokens.
    let log = [Message::user("12345678")];
    let six = "x".repeat(24);
    assert!(matches!(of(None, &six, &log).await, Err(SummaryError::NoGain { tokens: 6, replaces: 6 })));
    assert_eq!(of(Some(("p".to_owned(), 1)), &six, &log).await.unwrap().tokens, 6);
    assert_eq!(of(None, &six[..20], &log).await.unwrap().tokens, 5);
    let nothing_new = of(Some(("p".to_owned(), 1)), "never asked", &[]).await;
    assert!(matches!(nothing_new, Err(SummaryError::NoGain { tokens: 1, replaces: 1 })));
}

#[test]
fn rolling_may_move_between_threads() {
    fn is_send<T: Send>(_: T) {}
    let summarizer = Scripted::new([]);
    let mut rolling = rolling(&summarizer);
    is_send(rolling.push(&[]));
    is_send(rolling.finish());
}

#[tokio::test]
async fn every_chunk_has_to_be_sound() {
    let summarizer = Scripted::new([say("one"), say("")]);
    let mut rolling = rolling(&summarizer);
    let log: Vec<_> = (0..21).map(small).collect();
    assert!(matches!(rolling.push(&log).await, Err(SummaryError::Empty)));
    assert_eq!(rolling.cost().calls, 2);
}

#[tokio::test]
async fn the_cost_is_known_after_an_error() {
    let summarizer = Scripted::new([cut_off("12345678"), Answer::Fail]);
    let mut rolling = rolling(&summarizer);
    rolling.push(&[small(0)]).await.unwrap();
    assert!(rolling.finish().await.is_err());
    assert_eq!(rolling.cost(), SummaryCost { calls: 2, input_tokens: 14, output_tokens: 2 });
}

#[tokio::test(start_paused = true)]
async fn the_cost_is_known_when_time_is_over() {
    let summarizer = Scripted::new([Answer::Hang]);
    let mut rolling = rolling(&summarizer);
    rolling.push(&[small(0)]).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(1), rolling.finish()).await.is_err());
    assert_eq!(rolling.cost().calls, 1);
}

#[tokio::test]
async fn a_message_larger_than_a_chunk_is_given_without_its_middle() {
    let summarizer = Scripted::new([]);
    let giant = Message::user(format!("first {} last", "x ".repeat(100_000)));
    let mut rolling = rolling(&summarizer);
    rolling.push(&[small(0), giant.clone(), small(1)]).await.unwrap();
    rolling.finish().await.unwrap();
    let asked = summarizer.asked();
    assert_eq!(asked.iter().map(|request| request.messages.len()).collect::<Vec<_>>(), [1, 1, 1]);
    let shorter = &asked[1].messages[0];
    assert!(tokens_of(&COUNTER, shorter) <= 99 && tokens_of(&COUNTER, shorter) > 60, "beside the summary so far");
    let text = shorter.text();
    assert!(text.starts_with("first ") && text.ends_with(" last") && text.contains("characters left out"), "{text}");
}

#[tokio::test]
async fn a_hundred_thousand_messages_take_chunks_and_no_more() {
    let summarizer = Arc::new(Scripted::default());
    let mut rolling = Rolling::new(None, &*summarizer, &COUNTER, 100, 2_000);
    let mut replaces = 0;
    for page in 0..1_000 {
        let messages: Vec<_> = (0..100).map(|number| small(page * 100 + number)).collect();
        replaces += 100 * 14;
        rolling.push(&messages).await.unwrap();
        // What the test itself remembers is not to be what is measured.
        let mut asked = summarizer.asked();
        assert!(asked.iter().all(|request| request.messages.len() <= 2_000 / 14));
        asked.truncate(1);
    }
    rolling.finish().await.unwrap();
    let fewest = replaces / 2_000;
    let cost = rolling.cost();
    assert!((fewest..fewest + fewest / 50 + 2).contains(&cost.calls), "{cost:?}");
}

fn any_log() -> impl Strategy<Value = Vec<Message>> {
    let text = "[a-zä\\n ]{0,60}";
    let message = prop_oneof![
        text.prop_map(Message::user),
        text.prop_map(Message::assistant),
        text.prop_map(|text| Message::tool("x", text)),
        (text, 0..600_usize).prop_map(|(text, more)| Message::user(text + &"m".repeat(more))),
    ];
    prop::collection::vec(message, 1..60)
}

proptest! {
    #[test]
    fn all_messages_are_seen_once_in_order_each_call_with_the_outcome_before(
        log in any_log(),
        pages in prop::collection::vec(1..9_usize, 1..60),
        chunk_tokens in 40..400_u32,
        previous in prop::option::of("[a-z ]{1,80}"),
        cut in prop::collection::vec(any::<bool>(), 0..9),
    ) {
        let script = cut.into_iter().map(|cut| if cut { cut_off("cut off") } else { say("said") });
        let summarizer = Scripted::new(script.flat_map(|answer| [answer, say("again")]));
        let previous = previous.map(|text| (text.clone(), COUNTER.count_text(&text)));
        let mut rolling = Rolling::new(previous.clone(), &summarizer, &COUNTER, 10, chunk_tokens);
        let (mut rest, mut pages) = (&log[..], pages.into_iter().cycle());
        let rolled = tokio_test::block_on(async {
            while !rest.is_empty() {
                let (page, behind) = rest.split_at(pages.next().unwrap_or(1).min(rest.len()));
                rolling.push(page).await?;
                rest = behind;
            }
            rolling.finish().await
        });

        let asked = summarizer.asked();
        let said = summarizer.said.lock().unwrap();
        let (mut seen, mut outcome) = (Vec::new(), previous.as_ref().map(|(text, _)| text.clone()));
        for (request, said) in asked.iter().zip(&*said) {
            prop_assert_eq!(&request.previous, &outcome);
            let tokens: u32 = request.messages.iter().map(|message| COUNTER.count_message(message)).sum();
            let beside = outcome.as_deref().map_or(0, |text| COUNTER.count_text(text));
            let room = (chunk_tokens - beside.min(chunk_tokens)).max(chunk_tokens / 4);
            prop_assert!(tokens <= room || room < 20 && request.messages.len() == 1, "{} of {}", tokens, room);
            // One that was cut off is asked for again, with the same messages.
            if said != "cut off" {
                seen.extend(request.messages.iter().cloned());
                outcome = Some(said.clone());
            }
        }
        prop_assert_eq!(seen.len(), log.len());
        for (seen, message) in seen.iter().zip(&log) {
            let shortened = COUNTER.count_message(message) > chunk_tokens / 4 && seen.role() == message.role();
            prop_assert!(seen == message || shortened, "{:?} for {:?}", seen, message);
        }
        let replaces: u64 = log.iter().map(|message| u64::from(COUNTER.count_message(message))).sum::<u64>()
            + previous.map_or(0, |(_, tokens)| u64::from(tokens));
        match rolled {
            Ok(rolled) => {
                prop_assert_eq!(Some(rolled.text), outcome);
                prop_assert!(u64::from(rolled.tokens) < replaces);
                prop_assert_eq!(rolling.cost().calls as usize, asked.len());
            }
            Err(error) => prop_assert!(matches!(error, SummaryError::NoGain { .. }), "{:?}", error),
        }
    }
}

//! Tests of `Rolling`.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use crate::context::tokens::{ByteEstimate, TokenCounter, tokens_of};
use async_trait::async_trait;
use proptest::prelude::*;
use tower_chat_history_core::{Message, Usage};

use super::{Rolling, SizedSummary, Summarizer, SummaryCost, SummaryError, SummaryRequest, SummaryResponse};
use crate::error::BoxError;

const COUNTER: ByteEstimate = ByteEstimate::new();

/// Answers by a script, and then with unique texts. Records its requests.
#[derive(Default)]
struct Scripted {
    script: Mutex<VecDeque<Answer>>,
    requests: Mutex<Vec<SummaryRequest>>,
    answers: Mutex<Vec<String>>,
}

enum Answer {
    Say(SummaryResponse),
    Fail,
    RefuseLength,
    Hang,
}

/// The error of a model whose window is too small.
#[derive(Debug, thiserror::Error)]
#[error("too long")]
struct WindowExceeded;

impl Scripted {
    fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self { script: Mutex::new(script.into_iter().collect()), ..Self::default() }
    }

    fn requests(&self) -> MutexGuard<'_, Vec<SummaryRequest>> {
        self.requests.lock().unwrap()
    }
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

#[async_trait]
impl Summarizer for Scripted {
    fn is_too_long(&self, error: &(dyn std::error::Error + 'static)) -> bool {
        error.is::<WindowExceeded>()
    }

    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        self.requests().push(request);
        let next = self.script.lock().unwrap().pop_front();
        let summary = match next {
            None => SummaryResponse::new(format!("s{}", self.requests().len())),
            Some(Answer::Say(summary)) => summary,
            Some(Answer::RefuseLength) => return Err(WindowExceeded.into()),
            Some(Answer::Fail) => return Err("secret of the provider".into()),
            Some(Answer::Hang) => std::future::pending().await,
        };
        self.answers.lock().unwrap().push(summary.text.clone());
        Ok(summary)
    }
}

fn cut_off(text: &str) -> Answer {
    let mut summary = SummaryResponse::new(text);
    summary.finished = false;
    Answer::Say(summary)
}

fn say(text: &str) -> Answer {
    Answer::Say(SummaryResponse::new(text))
}

fn rolling(summarizer: &Scripted) -> Rolling<'_> {
    Rolling::new(None, summarizer, &COUNTER, 10, 100)
}

/// A message of 14 tokens.
fn small(number: usize) -> Message {
    Message::user(format!("{number:040}"))
}

async fn roll(summarizer: &Scripted) -> (Result<SizedSummary, SummaryError>, SummaryCost) {
    let mut rolling = rolling(summarizer);
    rolling.push(&[small(0), small(1)]).await.unwrap();
    (rolling.finish().await, rolling.cost())
}

#[tokio::test]
async fn a_call_that_is_too_long_is_made_in_halves() {
    let summarizer = Scripted::new([Answer::RefuseLength, say("s1"), say("s2")]);
    let mut rolling = rolling(&summarizer);
    rolling.push(&[small(0), small(1), small(2)]).await.unwrap();
    assert_eq!(rolling.finish().await.unwrap().text, "s2");
    let requests = summarizer.requests();
    let sizes: Vec<_> = requests.iter().map(|request| (request.previous.as_deref(), request.messages.len())).collect();
    assert_eq!(sizes, [(None, 3), (None, 2), (Some("s1"), 1)]);
}

#[tokio::test]
async fn a_single_message_that_is_too_long_is_shortened() {
    let summarizer = Scripted::new([Answer::RefuseLength, say("s")]);
    let mut rolling = rolling(&summarizer);
    rolling.push(&[Message::user("a word and ".repeat(20))]).await.unwrap();
    assert_eq!(rolling.finish().await.unwrap().text, "s");
    let requests = summarizer.requests();
    assert!(requests[1].messages[0].bytes() < requests[0].messages[0].bytes() * 2 / 3);
}

#[tokio::test]
async fn a_summary_is_halved_at_most_three_times() {
    let summarizer = Scripted::new((0..9).map(|_| Answer::RefuseLength));
    let mut rolling = rolling(&summarizer);
    rolling.push(&[small(0), small(1), small(2), small(3)]).await.unwrap();
    assert!(matches!(rolling.finish().await, Err(SummaryError::Failed(_))));
    assert_eq!(summarizer.requests().len(), 4);
}

#[tokio::test]
async fn messages_that_fit_one_call_take_one_call() {
    let summary = {
        let mut summary = SummaryResponse::new(" short \n");
        (summary.model, summary.usage) = (Some("m".to_owned()), Some(Usage::new(50, 3)));
        Answer::Say(summary)
    };
    let summarizer = Scripted::new([summary]);
    let mut rolling = Rolling::new(Some(("before".to_owned(), 2)), &summarizer, &COUNTER, 10, 100);
    for number in 0..7 {
        rolling.push(&[small(number)]).await.unwrap();
    }
    assert!(summarizer.requests().is_empty(), "7 * 14 and 2 are 100");
    let rolled = rolling.finish().await.unwrap();
    assert_eq!((&*rolled.text, rolled.tokens, rolled.model.as_deref()), ("short", 2, Some("m")));
    assert_eq!(rolling.cost(), SummaryCost { calls: 1, input_tokens: 50, output_tokens: 3 });
    let request = &summarizer.requests()[0];
    assert_eq!((request.previous.as_deref(), request.messages.len(), request.max_tokens), (Some("before"), 7, 10));
}

#[tokio::test]
async fn unreported_tokens_are_counted() {
    let summarizer = Scripted::new([say("12345678")]);
    assert_eq!(roll(&summarizer).await.1, SummaryCost { calls: 1, input_tokens: 28, output_tokens: 2 });
}

#[tokio::test]
async fn a_shorter_summary_is_requested_once_after_a_cut_off_one() {
    let summarizer = Scripted::new([cut_off("a long one that"), say("short")]);
    let (rolled, cost) = roll(&summarizer).await;
    assert_eq!((&*rolled.unwrap().text, cost.calls), ("short", 2));
    {
        let requests = summarizer.requests();
        assert_eq!([requests[0].max_tokens, requests[1].max_tokens], [10, 6]);
        assert_eq!((&requests[0].messages, &requests[0].previous), (&requests[1].messages, &requests[1].previous));
    }

    let summarizer = Scripted::new([cut_off("a"), cut_off("")]);
    assert!(matches!(roll(&summarizer).await.0, Err(SummaryError::CutOff)));
    assert_eq!(summarizer.requests().len(), 2);
}

#[tokio::test]
async fn control_characters_are_removed_from_summaries() {
    let mut summary = SummaryResponse::new("\u{0}one\ttwo\u{1}\r\nthree\u{7f}\u{85}\n\u{0}");
    summary.model = Some("m\u{0}\n".to_owned());
    let rolled = roll(&Scripted::new([Answer::Say(summary)])).await.0.unwrap();
    assert_eq!((&*rolled.text, rolled.model.as_deref()), ("one\ttwo\r\nthree", Some("m")));
    let nothing = roll(&Scripted::new([say("\u{0}\n\u{1}")])).await.0;
    assert!(matches!(nothing, Err(SummaryError::Empty)));
}

#[tokio::test]
async fn unsound_summaries_are_refused() {
    let refused = async |answer: Answer| roll(&Scripted::new([answer])).await.0.unwrap_err();
    assert!(matches!(refused(say(" \n")).await, SummaryError::Empty));
    let long = "x".repeat(41);
    assert!(matches!(refused(say(&long)).await, SummaryError::TooLong { tokens: 11, allowed: 10 }));
    let failed = refused(Answer::Fail).await;
    assert!(matches!(&failed, SummaryError::Failed(source) if source.to_string() == "secret of the provider"));
    assert_eq!(failed.to_string(), "the summarizer failed");
}

#[tokio::test]
async fn a_summary_must_be_smaller_than_what_it_replaces() {
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
    let nothing_new = of(Some(("p".to_owned(), 1)), "not requested", &[]).await;
    assert!(matches!(nothing_new, Err(SummaryError::NoGain { tokens: 1, replaces: 1 })));
}

#[test]
fn rolling_is_send() {
    fn is_send<T: Send>(_: T) {}
    let summarizer = Scripted::new([]);
    let mut rolling = rolling(&summarizer);
    is_send(rolling.push(&[]));
    is_send(rolling.finish());
}

#[tokio::test]
async fn every_chunk_is_checked() {
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
async fn the_cost_is_known_after_a_timeout() {
    let summarizer = Scripted::new([Answer::Hang]);
    let mut rolling = rolling(&summarizer);
    rolling.push(&[small(0)]).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(1), rolling.finish()).await.is_err());
    assert_eq!(rolling.cost().calls, 1);
}

#[tokio::test]
async fn a_message_larger_than_a_chunk_is_shortened() {
    let summarizer = Scripted::new([]);
    let giant = Message::user(format!("first {} last", "x ".repeat(100_000)));
    let mut rolling = rolling(&summarizer);
    rolling.push(&[small(0), giant.clone(), small(1)]).await.unwrap();
    rolling.finish().await.unwrap();
    let requests = summarizer.requests();
    assert_eq!(requests.iter().map(|request| request.messages.len()).collect::<Vec<_>>(), [1, 1, 1]);
    let shorter = &requests[1].messages[0];
    assert!(tokens_of(&COUNTER, shorter) <= 99 && tokens_of(&COUNTER, shorter) > 60, "next to the summary so far");
    let text = shorter.text();
    assert!(text.starts_with("first ") && text.ends_with(" last") && text.contains("characters left out"), "{text}");
}

#[tokio::test]
async fn a_hundred_thousand_messages_take_the_fewest_chunks() {
    let summarizer = Arc::new(Scripted::default());
    let mut rolling = Rolling::new(None, &*summarizer, &COUNTER, 100, 2_000);
    let mut replaces = 0;
    for page in 0..1_000 {
        let messages: Vec<_> = (0..100).map(|number| small(page * 100 + number)).collect();
        replaces += 100 * 14;
        rolling.push(&messages).await.unwrap();
        // Truncated, so that the test's own record does not grow.
        let mut requests = summarizer.requests();
        assert!(requests.iter().all(|request| request.messages.len() <= 2_000 / 14));
        requests.truncate(1);
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
    fn each_message_is_summarized_once_in_order_with_the_previous_summary(
        log in any_log(),
        pages in prop::collection::vec(1..9_usize, 1..60),
        chunk_tokens in 40..400_u32,
        previous in prop::option::of("[a-z ]{1,80}"),
        cut in prop::collection::vec(any::<bool>(), 0..9),
    ) {
        let script = cut.into_iter().map(|cut| if cut { cut_off("cut off") } else { say("answer") });
        let summarizer = Scripted::new(script.flat_map(|answer| [answer, say("again")]));
        let previous = previous.map(|text| (text.clone(), COUNTER.count_text(&text)));
        let mut rolling = Rolling::new(previous.clone(), &summarizer, &COUNTER, 10, chunk_tokens);
        let (mut rest, mut pages) = (&log[..], pages.into_iter().cycle());
        let rolled = tokio_test::block_on(async {
            while !rest.is_empty() {
                let (page, later) = rest.split_at(pages.next().unwrap_or(1).min(rest.len()));
                rolling.push(page).await?;
                rest = later;
            }
            rolling.finish().await
        });

        let requests = summarizer.requests();
        let answers = summarizer.answers.lock().unwrap();
        let (mut seen, mut outcome) = (Vec::new(), previous.as_ref().map(|(text, _)| text.clone()));
        for (request, answer) in requests.iter().zip(&*answers) {
            prop_assert_eq!(&request.previous, &outcome);
            let tokens: u32 = request.messages.iter().map(|message| COUNTER.count_message(message)).sum();
            let summary_tokens = outcome.as_deref().map_or(0, |text| COUNTER.count_text(text));
            let room = (chunk_tokens - summary_tokens.min(chunk_tokens)).max(chunk_tokens / 4);
            prop_assert!(tokens <= room || room < 20 && request.messages.len() == 1, "{} of {}", tokens, room);
            // A summary that was cut off is requested again with the same messages.
            if answer != "cut off" {
                seen.extend(request.messages.iter().cloned());
                outcome = Some(answer.clone());
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
                prop_assert_eq!(rolling.cost().calls as usize, requests.len());
            }
            Err(error) => prop_assert!(matches!(error, SummaryError::NoGain { .. }), "{:?}", error),
        }
    }
}

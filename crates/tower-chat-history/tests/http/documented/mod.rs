//! Streams with the events of every kind that the providers document, as of November 2026. Each is cut at every byte,
//! and ends at every byte.

mod chat;
mod messages;
mod responses;

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower_chat_history::{
    HistoryOptions, HistoryStoreExt as _, Policies,
    http::{CONVERSATION_ID, HttpHistory},
    policy::OnInterruption,
    report::{NotStored, TurnOutcome},
    store::Usage,
};

use super::support::{EVENTS, History, JSON, answer_with, cuts, frames, id};

/// A stream, and the body of the whole response that has the same reply.
struct Documented {
    /// The path and the body of the request.
    ask: (&'static str, &'static str),
    stream: String,
    whole: String,
    /// The number of bytes after which the reply is complete.
    complete_after: usize,
}

/// A reply as it is stored.
#[derive(Debug, Default, PartialEq)]
struct Stored {
    /// The JSON of the messages.
    messages: Vec<String>,
    model: Option<String>,
    finish_reason: Option<String>,
    usage: Option<Usage>,
}

impl Stored {
    async fn of(history: &History) -> Self {
        let log = history.store.conversation(&id()).exchanges().await.unwrap();
        let Some(recorded) = log.first() else { return Self::default() };
        let exchange = &recorded.exchange;
        Self {
            messages: exchange.reply().iter().map(|message| message.json().to_owned()).collect(),
            model: exchange.model.clone(),
            finish_reason: exchange.finish_reason.clone(),
            usage: exchange.usage,
        }
    }

    fn values(&self) -> Vec<Value> {
        self.messages.iter().map(|json| serde_json::from_str(json).unwrap()).collect()
    }
}

impl Documented {
    /// Creates a stream whose reply is complete at its last byte.
    fn new(ask: (&'static str, &'static str), stream: String, whole: String) -> Self {
        let complete_after = stream.len();
        Self { ask, stream, whole, complete_after }
    }

    fn ask(&self) -> Request<Full<Bytes>> {
        Request::post(self.ask.0).header(CONVERSATION_ID, id().as_str()).body(self.ask.1.into()).unwrap()
    }

    /// Answers a call with this body in these pieces, and checks that the caller receives its bytes. Returns the stored
    /// reply, and the outcome.
    async fn received(&self, history: &History, kind: &str, pieces: &[&[u8]]) -> (Stored, TurnOutcome) {
        let parts = pieces.iter().map(|piece| Frame::data(Bytes::copy_from_slice(piece)));
        let (_, response) = history.call(self.ask(), answer_with(kind, frames(parts.collect()))).await;
        let body = response.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, pieces.concat());
        (Stored::of(history).await, history.outcome())
    }

    /// Returns the reply that is stored of the whole response.
    async fn expected(&self) -> Stored {
        let (stored, outcome) = self.received(&History::new(), JSON, &[self.whole.as_bytes()]).await;
        assert!(!stored.messages.is_empty() && stored.model.is_some() && stored.usage.is_some(), "{}", self.whole);
        assert!(matches!(outcome, TurnOutcome::Stored { .. }), "{outcome:?}: {}", self.whole);
        stored
    }

    /// Checks that the stream is stored like the whole response, at whichever bytes it is cut.
    async fn assert_cut_anywhere(&self) {
        let expected = self.expected().await;
        for pieces in cuts(self.stream.as_bytes()) {
            let (stored, outcome) = self.received(&History::new(), EVENTS, &pieces).await;
            assert_eq!(stored, expected, "first cut at {} of {}", pieces[0].len(), self.stream);
            assert!(matches!(outcome, TurnOutcome::Stored { .. }), "{outcome:?}: first cut at {}", pieces[0].len());
        }
        let bytes: Vec<&[u8]> = self.stream.as_bytes().chunks(1).collect();
        let (stored, _) = self.received(&History::new(), EVENTS, &bytes).await;
        assert_eq!(stored, expected, "each byte alone: {}", self.stream);
    }

    /// Checks that the stream is stored as it is documented for interrupted ones, wherever it ends: at the bytes around
    /// each end of a line, and at every seventh byte. `check` compares the messages that `KeepText` stores with those
    /// of the whole response. Without `KeepText`, nothing is stored before the reply is complete, which is checked
    /// after each event. Returns the number of ends at which `KeepText` stored messages.
    async fn assert_ends_anywhere(&self, check: impl Fn(&[Value], &[Value])) -> usize {
        let mut kept = 0;
        let expected = self.expected().await;
        let whole = expected.values();
        let bytes = self.stream.as_bytes();
        let is_near_end_of_line = |end: usize| bytes[end.saturating_sub(2)..bytes.len().min(end + 2)].contains(&b'\n');
        for end in (0..=bytes.len()).filter(|end| end % 7 == 0 || is_near_end_of_line(*end)) {
            let part = &self.stream.as_bytes()[..end];
            let (stored, outcome) = self.received(&keeping(), EVENTS, &[part]).await;
            if end >= self.complete_after {
                assert_eq!(stored.messages, expected.messages, "ends at {end}");
                continue;
            }
            if !stored.messages.is_empty() {
                check(&stored.values(), &whole);
                kept += 1;
            }
            assert!(
                !matches!(outcome, TurnOutcome::Stored { incomplete: false, .. }),
                "ends at {end} of {}",
                self.stream
            );
            if !part.ends_with(b"\n\n") {
                continue;
            }
            let (stored, outcome) = self.received(&History::new(), EVENTS, &[part]).await;
            assert_eq!(stored, Stored::default(), "ends at {end}");
            let is_interrupted = matches!(outcome, TurnOutcome::NotStored(NotStored::Interrupted));
            assert!(is_interrupted, "{outcome:?}: ends at {end} of {}", self.stream);
        }
        kept
    }

    /// Checks that nothing is stored of the stream, at whichever bytes it is cut.
    async fn assert_interrupted_anywhere(&self) {
        for pieces in cuts(self.stream.as_bytes()) {
            let (stored, outcome) = self.received(&History::new(), EVENTS, &pieces).await;
            let is_interrupted = stored.messages.is_empty() && matches!(outcome, TurnOutcome::NotStored(_));
            assert!(is_interrupted, "{outcome:?}: first cut at {}", pieces[0].len());
        }
    }
}

/// Returns a layer that keeps the text of interrupted replies.
fn keeping() -> History {
    let policies = Policies::new().on_interruption(OnInterruption::KeepText);
    History::of(HttpHistory::new(), HistoryOptions::new().policies(policies))
}

/// Returns `true` if a text is the beginning of another, or if both are missing.
fn begins(part: &Value, whole: &Value) -> bool {
    match (part.as_str(), whole.as_str()) {
        // A character that breaks off is replaced in the parsed text.
        (Some(part), Some(whole)) => whole.starts_with(part.trim_end_matches('\u{fffd}')),
        (part, whole) => part.is_none() && whole.is_none(),
    }
}

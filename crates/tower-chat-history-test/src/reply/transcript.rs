//! A reply as the events of a stream, with their delays.

use std::{collections::VecDeque, time::Duration};

use futures_util::{Stream, stream::unfold};
use serde_json::{Map, Value, json};

use super::{
    ApiFailure, BreakOff, Choice, Reply,
    wire::{CREATED, NoReply, RequestParams},
};
use crate::util::pieces;

/// The events of a stream, and its end.
#[derive(Debug)]
pub(crate) struct Transcript {
    /// The data of each event, or the whole event.
    pub(crate) events: Vec<String>,
    /// `true` if each event is whole, with its name.
    #[cfg(feature = "server")]
    pub(crate) is_framed: bool,
    pub(crate) end: End,
    pub(crate) delay: Duration,
    #[cfg(feature = "server")]
    pub(crate) wire_bytes: Option<usize>,
}

#[derive(Debug)]
pub(crate) enum End {
    /// The stream ends with `[DONE]`.
    Done,
    /// The stream ends without `[DONE]`.
    Closed,
    /// The connection breaks.
    Aborted,
    Panic(String),
}

impl Reply {
    /// Returns the reply as a stream.
    pub(crate) fn transcript(&self, params: &RequestParams) -> Result<Transcript, NoReply> {
        let choices = self.choices_for(params)?;
        let mut events = Vec::new();
        for part in alternating(choices.iter().enumerate().map(|(index, choice)| self.parts(index, choice))) {
            events.push(self.chunk(params, &json!([part]), &Value::Null));
        }
        if params.include_usage {
            events.push(self.chunk(params, &json!([]), &self.usage_for(params, &choices)));
        }
        Ok(self.broken(events, End::Done, |failure, _| failure.to_json().to_string()))
    }

    fn chunk(&self, params: &RequestParams, choices: &Value, usage: &Value) -> String {
        let mut chunk = json!({
            "id": params.id(),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self.model_for(params),
            "choices": choices,
        });
        // If the request asks for usage, OpenAI writes the field into every chunk.
        if params.include_usage {
            chunk["usage"] = usage.clone();
        }
        chunk.to_string()
    }

    /// Returns the stream of these events, or its beginning if the reply breaks it off. `error` writes the event of a
    /// failure, which has this number.
    pub(super) fn broken(
        &self,
        mut events: Vec<String>,
        mut end: End,
        error: impl Fn(&ApiFailure, usize) -> String,
    ) -> Transcript {
        if let Some((chunks, break_off)) = &self.break_off {
            events.truncate(*chunks);
            end = match break_off {
                BreakOff::End => End::Closed,
                BreakOff::Abort => End::Aborted,
                BreakOff::Error(failure) => {
                    events.push(error(failure, events.len()));
                    End::Closed
                }
                BreakOff::Panic(message) => End::Panic(message.clone()),
            };
        }

        if let Some((chunks, failure)) = &self.passing_error {
            let at = events.len().min(*chunks);
            events.insert(at, error(failure, at));
        }

        Transcript {
            events,
            #[cfg(feature = "server")]
            is_framed: false,
            end,
            delay: self.chunk_delay,
            #[cfg(feature = "server")]
            wire_bytes: self.wire_bytes,
        }
    }

    /// Returns the parts of one choice, in order.
    fn parts(&self, index: usize, choice: &Choice) -> VecDeque<Value> {
        let mut opening = Map::new();
        opening.insert("role".into(), "assistant".into());
        opening.insert("content".into(), choice.text.as_ref().map_or(Value::Null, |_| "".into()));
        opening.extend(choice.fields.clone());

        let mut deltas = VecDeque::from([Value::from(opening)]);
        deltas.extend(choice.made.deltas.iter().cloned());
        deltas.extend(self.pieces(choice.text.as_deref()).iter().map(|piece| json!({ "content": piece })));
        deltas.extend(self.pieces(choice.refusal.as_deref()).iter().map(|piece| json!({ "refusal": piece })));
        deltas.extend(self.call_deltas(choice).into_iter().map(|call| json!({ "tool_calls": [call] })));

        let mut parts = VecDeque::new();
        for delta in deltas {
            parts.push_back(json!({ "index": index, "delta": delta, "finish_reason": null }));
        }
        let finish_reason = choice.finish_reason_of_stream();
        parts.push_back(json!({ "index": index, "delta": {}, "finish_reason": finish_reason }));
        parts
    }

    /// Returns the deltas of a choice's calls.
    fn call_deltas(&self, choice: &Choice) -> Vec<Value> {
        if choice.made.whole_calls {
            return choice.whole_calls().collect();
        }
        let mut deltas = Vec::new();
        let mut later = Vec::new();
        for (at, call) in choice.calls.iter().enumerate() {
            deltas.push(choice.with_fields(at, call.opening(at)));
            let arguments = self.pieces(Some(&call.arguments));
            later.push(arguments.iter().map(|piece| call.piece(at, piece)).collect());
        }
        deltas.extend(alternating(later.into_iter()));
        deltas
    }

    /// Splits the text into pieces of the configured length.
    fn pieces(&self, text: Option<&str>) -> Vec<String> {
        pieces(text.unwrap_or_default(), self.chunk_chars)
    }
}

/// Returns the first item of each queue, then the second of each, and so on.
fn alternating(queues: impl Iterator<Item = VecDeque<Value>>) -> Vec<Value> {
    let mut queues: Vec<_> = queues.collect();
    let mut all = Vec::new();
    while queues.iter().any(|queue| !queue.is_empty()) {
        all.extend(queues.iter_mut().filter_map(VecDeque::pop_front));
    }
    all
}

/// The next item of a stream.
#[derive(Debug)]
pub(crate) enum Frame {
    /// The data of an event.
    Data(String),
    /// `[DONE]`.
    Done,
    /// The connection breaks. No item follows.
    Aborted,
}

/// Plays the transcript. After [`Frame::Done`] and [`Frame::Aborted`], the stream ends.
///
/// # Panics
///
/// Panics if the transcript ends with a panic.
pub(crate) fn play(transcript: Transcript) -> impl Stream<Item = Frame> + Send {
    let delay = transcript.delay;
    unfold(
        (transcript.events.into_iter(), Some(transcript.end), false),
        move |(mut events, mut end, started)| async move {
            if let Some(event) = events.next() {
                if started && !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                return Some((Frame::Data(event), (events, end, true)));
            }

            let last = match end.take()? {
                End::Done => Frame::Done,
                End::Closed => return None,
                End::Aborted => Frame::Aborted,
                End::Panic(message) => panic!("{message}"),
            };
            Some((last, (events, end, true)))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Signer;

    fn params(n: usize, include_usage: bool) -> RequestParams {
        RequestParams { number: 1, model: "mock".into(), n, include_usage, prompt_bytes: 8, signer: Signer::default() }
    }

    /// Returns the choices of every event, `null` for error events.
    fn events(reply: &Reply, params: &RequestParams) -> Vec<Value> {
        let events = reply.transcript(params).unwrap().events;
        events.iter().map(|event| serde_json::from_str::<Value>(event).unwrap()["choices"].take()).collect()
    }

    #[test]
    fn text_is_split_between_the_role_and_the_finish_reason() {
        let events = events(&Reply::text("añb").chunk_chars(2), &params(1, false));
        let deltas: Vec<_> = events.iter().map(|event| &event[0]["delta"]).collect();
        assert_eq!(deltas[0], &json!({ "role": "assistant", "content": "" }));
        assert_eq!((deltas[1], deltas[2]), (&json!({ "content": "añ" }), &json!({ "content": "b" })));
        assert_eq!(events[3], json!([{ "index": 0, "delta": {}, "finish_reason": "stop" }]));
        assert_eq!(events.len(), 4);
    }

    #[test]
    fn pieces_of_parallel_calls_alternate() {
        let reply = Reply::calls([("a", "f", "1234"), ("b", "g", "56")]).chunk_chars(2);
        let events = events(&reply, &params(1, false));
        let calls: Vec<_> = events.iter().filter_map(|event| event[0]["delta"]["tool_calls"].get(0)).collect();
        assert_eq!(calls[0]["id"], "a");
        assert_eq!(
            calls[1],
            &json!({
                "index": 1, "id": "b", "type": "function", "function": { "name": "g", "arguments": "" }
            })
        );
        let later = calls[2..].iter().map(|call| (call["index"].as_u64(), call["function"]["arguments"].as_str()));
        let expected = [(Some(0), Some("12")), (Some(1), Some("56")), (Some(0), Some("34"))];
        assert_eq!(later.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn usage_is_the_last_chunk_and_has_no_choices() {
        let reply = Reply::choices([Choice::text("a"), Choice::text("b")]);
        let events = events(&reply, &params(2, true));
        let indexes: Vec<_> = events.iter().map(|event| event[0]["index"].as_u64()).collect();
        assert_eq!(indexes, [Some(0), Some(1), Some(0), Some(1), Some(0), Some(1), None]);
        assert_eq!(events[6], json!([]));
    }

    #[test]
    fn a_broken_stream_has_the_chunks_before_the_break() {
        let reply = Reply::text("abcd").chunk_chars(1);
        let ended = reply.clone().end_after(2).transcript(&params(1, true)).unwrap();
        assert!(ended.events.len() == 2 && matches!(ended.end, End::Closed));
        let failed = reply.clone().error_after(2, ApiFailure::server_error()).transcript(&params(1, true)).unwrap();
        assert!(failed.events.len() == 3 && failed.events[2].contains("\"error\""));
        let passing = reply.passing_error_after(2, ApiFailure::server_error()).transcript(&params(1, true)).unwrap();
        assert!(passing.events.len() == 8 && passing.events[2].contains("\"error\""));
        assert!(matches!(passing.end, End::Done));
    }
}

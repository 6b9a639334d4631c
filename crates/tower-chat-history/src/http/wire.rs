//! The HTTP half of a dialect.

use std::fmt;

use bytes::Bytes;
use http::{StatusCode, Uri};

use super::{error::CallError, refusal::Refusal, splice::Splice, sse::Event};
use crate::{
    adapt::{FoldReply, Repair, RequestMessages},
    call::Reply,
    dialect::Dialect,
    engine::{InputMode, RequestInfo},
};

/// The HTTP half of a dialect: how a body contains the messages of a request, and the reply.
///
/// [`ChatWire`](crate::http::ChatWire) is the wire of chat completions. [`Routes`](crate::http::Routes) connects the paths of
/// requests with wires.
pub trait Wire: fmt::Debug + Send + Sync + 'static {
    /// Returns the dialect of the messages.
    fn dialect(&self) -> &'static dyn Dialect;

    /// Returns the provider that a request to this address calls, for spans (`gen_ai.provider.name`).
    fn provider(&self, uri: &Uri) -> &'static str;

    /// Finds the messages in the body of a request. `mode` and `few_shot_messages` decide which of them are head,
    /// transcript and input.
    ///
    /// # Errors
    ///
    /// Returns an error if the body cannot be used.
    fn open(&self, body: Bytes, mode: InputMode, few_shot_messages: usize) -> Result<OpenedBody, CallError>;

    /// Finds the reply in the body of a whole response. If the body has none, the result has
    /// [the shape](Reply::unreadable) of the body.
    fn reply(&self, body: &[u8]) -> Reply;

    /// Returns the fold of a stream of events, for a request with this number of choices. The fold returns
    /// [`Flow::Hold`](crate::adapt::Flow::Hold) for the event after which clients stop reading.
    fn fold(&self, choices: usize) -> Box<dyn FoldReply<Event>>;

    /// Returns the repair with which a refused call can succeed. `body` is the whole body of a response with a status
    /// 4xx. Larger bodies than 64 KiB, encoded ones, and those that do not end within 10 seconds (or the [idle
    /// timeout](crate::HistoryOptions::stream_idle_timeout), if that is shorter) are passed on and never
    /// repaired. The default is `None`.
    fn repair(&self, status: StatusCode, body: &[u8]) -> Option<Repair> {
        let _ = (status, body);
        None
    }

    /// Returns the JSON of a refusal, in the form of the provider's errors.
    fn refusal(&self, refusal: &Refusal) -> String;
}

/// A body that was read.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenedBody {
    /// The body, which waits for its window.
    pub splice: Splice,
    /// The messages.
    pub messages: RequestMessages,
    /// The number of choices that are requested.
    pub choices: usize,
    /// The other fields that count for a budget or that spans report. Its head is that of the messages.
    pub info: RequestInfo,
}

impl OpenedBody {
    /// Creates a body that was read, with one choice and no other fields.
    #[must_use]
    pub const fn new(splice: Splice, messages: RequestMessages) -> Self {
        Self { splice, messages, choices: 1, info: RequestInfo::new() }
    }
}

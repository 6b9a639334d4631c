//! Folding the frames of a stream into a reply.

use std::fmt;

use bytes::Bytes;
use http_body::Frame;

use super::sse::{Event, Events};
use crate::{
    adapt::{Flow, FoldReply},
    call::Reply,
};

/// Finds the events in the frames of a body, for a wire's fold.
pub(crate) struct SseFold {
    events: Events,
    fold: Box<dyn FoldReply<Event>>,
    /// True if an event was too large before the reply was complete.
    is_too_large: bool,
}

impl SseFold {
    /// Creates a fold for events of at most `limit` bytes.
    pub(crate) fn new(fold: Box<dyn FoldReply<Event>>, limit: usize) -> Self {
        Self { events: Events::new(limit), fold, is_too_large: false }
    }
}

impl FoldReply<Frame<Bytes>> for SseFold {
    fn push(&mut self, frame: &Frame<Bytes>) -> Flow {
        let Some(bytes) = frame.data_ref() else { return Flow::Pass };
        let Self { events, fold, is_too_large } = self;
        let mut flow = Flow::Pass;
        let found = events.push(bytes, |event| {
            if fold.push(event) == Flow::Hold {
                flow = Flow::Hold;
            }
        });
        if found.is_err() && !*is_too_large && !fold.is_complete() {
            tracing::warn!("an event of a stream exceeds the size limit; its reply counts as interrupted");
            *is_too_large = true;
        }
        flow
    }

    fn is_complete(&self) -> bool {
        !self.is_too_large && self.fold.is_complete()
    }

    fn is_whole(&self) -> bool {
        !self.is_too_large && self.fold.is_whole()
    }

    fn reply(&self) -> Reply {
        self.fold.reply()
    }

    fn partial(&self) -> Option<Reply> {
        self.fold.partial()
    }
}

impl fmt::Debug for SseFold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseFold").field("events", &self.events).finish_non_exhaustive()
    }
}

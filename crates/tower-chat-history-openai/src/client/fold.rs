//! Folding a stream of events into a reply.

use bytes::Bytes;
use tower_chat_history::{
    Reply,
    adapt::{Flow, FoldReply, completion::ChunkFold},
};

use super::sse::{Event, Events};

/// The fold that all adapters share, with the data of events as its input.
#[derive(Debug)]
pub(super) struct SseFold {
    events: Events,
    fold: ChunkFold,
    /// True if `[DONE]` has come.
    done: bool,
}

impl SseFold {
    pub(super) fn new(choices: usize) -> Self {
        Self { events: Events::default(), fold: ChunkFold::new(choices), done: false }
    }
}

fn take(fold: &mut ChunkFold, done: &mut bool, event: &Event) {
    if *done || event.name == b"keepalive" {
        return;
    }
    if event.data.trim_ascii() == b"[DONE]" {
        *done = true;
        return;
    }
    match std::str::from_utf8(&event.data) {
        Ok(chunk) if event.name != b"error" => fold.push_json(chunk),
        Ok(_) | Err(_) => fold.fail(),
    }
}

impl FoldReply<Bytes> for SseFold {
    fn push(&mut self, bytes: &Bytes) -> Flow {
        let was_done = self.done;
        let Self { events, fold, done } = self;
        if events.push(bytes, |event| take(fold, done, event)).is_err() {
            fold.fail_too_large();
        }
        if self.done && !was_done { Flow::Hold } else { Flow::Pass }
    }

    fn is_complete(&self) -> bool {
        self.fold.is_complete()
    }

    fn is_whole(&self) -> bool {
        self.fold.is_whole()
    }

    fn reply(&self) -> Reply {
        self.fold.reply()
    }

    fn partial(&self) -> Option<Reply> {
        self.fold.partial()
    }
}

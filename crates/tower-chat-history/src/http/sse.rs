//! Server-sent events: their parser, for bytes that arrive in arbitrary pieces, and the fold of a stream of them.

use std::{fmt, mem};

use bytes::Bytes;
use http_body::Frame;
use tower_chat_history_core::json::BOM;

use crate::{
    adapt::{Flow, FoldReply},
    call::Reply,
};

/// An event or a line is larger than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Finds events as the HTML standard defines them. Lines end with LF, CRLF or CR. A colon begins a comment. Several
/// data lines form one text. An empty line ends an event. An event without such a line at the end of the stream is
/// discarded.
#[derive(Default)]
pub(crate) struct Events {
    /// The largest size of an event and of a line, in bytes. It bounds the memory if a server never ends a line.
    limit: usize,
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// True after the first line, which may begin with a byte order mark.
    first_line_ended: bool,
    /// True if the previous byte was a CR. An LF after it is part of the same line end.
    after_cr: bool,
    /// True after an event that was too large. No further bytes are read.
    gave_up: bool,
}

/// A server-sent event. Its bytes are not checked for UTF-8. Its `Debug` output does not contain them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Event {
    name: Vec<u8>,
    data: Vec<u8>,
}

impl Event {
    /// Creates an event, for tests of a [`Wire`](crate::http::Wire). An empty name means that the event has none.
    pub fn new(name: impl Into<Vec<u8>>, data: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), data: data.into() }
    }

    /// Returns the name. It is empty if the event has none.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the data, whose lines are joined by LF.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }
}

impl Events {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Reads the next bytes, and calls `on_event` with every event that ends in them. After an event that is too large,
    /// it always returns the error, and finds no more events.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut on_event: impl FnMut(&Event)) -> Result<(), TooLarge> {
        while !bytes.is_empty() && !self.gave_up {
            if mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let line = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + self.event.data.len() + line.len() > self.limit {
                *self = Self { gave_up: true, ..Self::default() };
                break;
            }
            self.line.extend_from_slice(line);
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(&mut on_event);
        }
        if self.gave_up { Err(TooLarge) } else { Ok(()) }
    }

    fn end_line(&mut self, on_event: &mut impl FnMut(&Event)) {
        let mut line = mem::take(&mut self.line);
        let text = if self.first_line_ended { &line[..] } else { line.strip_prefix(BOM).unwrap_or(&line) };
        self.first_line_ended = true;
        if text.is_empty() {
            let event = mem::take(&mut self.event);
            if mem::take(&mut self.has_data) {
                on_event(&event);
            }
        } else {
            self.field(text);
        }
        // The buffer is reused, because a stream has thousands of lines.
        line.clear();
        self.line = line;
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.event.data.push(b'\n');
                }
                self.event.data.extend_from_slice(value);
            }
            b"event" => self.event.name = value.to_vec(),
            _ => {}
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("line", &self.line.len()).field("event", &self.event).finish_non_exhaustive()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("bytes", &self.data.len()).finish_non_exhaustive()
    }
}

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX_EVENT: usize = 16 << 20;

    fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String)> {
        let mut events = Events::new(MAX_EVENT);
        let mut found = Vec::new();
        for piece in pieces {
            let read = events.push(piece, |event| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                found.push((text(&event.name), text(&event.data)));
            });
            assert_eq!(read, Ok(()));
        }
        found
    }

    fn data(text: &str) -> Vec<String> {
        events([text.as_bytes()]).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn lf_crlf_and_cr_end_a_line() {
        for text in ["data: a\n\ndata: b\n\n", "data: a\r\n\r\ndata: b\r\n\r\n", "data: a\r\rdata: b\r\r"] {
            assert_eq!(data(text), ["a", "b"], "{text:?}");
        }
        assert_eq!(data("data: a\n\r\ndata: b\r\n\n"), ["a", "b"], "mixed");
    }

    #[test]
    fn fields_are_parsed_as_the_standard_defines() {
        assert_eq!(data("\u{feff}data: a\n\n"), ["a"]);
        assert_eq!(data(": ping\n\n:\ndata:a\n: between\ndata:  b\n\n"), ["a\n b"]);
        assert_eq!(data("data\n\ndata:\ndata:\n\n"), ["", "\n"]);
        assert_eq!(data("id: 1\nretry: 5\nother\n\n"), [""; 0]);
        assert_eq!(data("data: a\n\ndata: cut off\n"), ["a"]);
        assert_eq!(
            events([&b"event: error\ndata: x\n\ndata: y\n\n"[..]])[1].0,
            "",
            "the name applies to one event only"
        );
    }

    #[test]
    fn lines_and_events_without_an_end_take_bounded_memory() {
        let data = format!("data: {}\n", "x".repeat(1_000));
        // Repeated names replace each other, so their number is not bounded.
        for (piece, is_bounded) in [(&b"x"[..], false), (data.as_bytes(), false), (b"event: x\n", true)] {
            let mut events = Events::new(MAX_EVENT);
            let pieces = piece.repeat((1 << 20) / piece.len());
            let read: Vec<_> = (0..40).map(|_| events.push(&pieces, |_| panic!("no event ends"))).collect();
            assert_eq!(read[39].is_ok(), is_bounded);
            assert!(events.line.capacity() + events.event.data.capacity() < MAX_EVENT / 8);
            assert_eq!(events.push(b"\n\ndata: y\n\n", |_| {}).is_ok(), is_bounded, "the error persists");
        }
    }

    #[test]
    fn an_event_may_be_large() {
        let data = "x".repeat(MAX_EVENT - 100);
        assert_eq!(events(format!("data: {data}\n\n").as_bytes().chunks(1 << 20))[0].1.len(), data.len());
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_how_the_bytes_are_split(
            lines in prop::collection::vec(("(data|event|: c|id|)", "[a-zäß: ]{0,5}", "(\n|\r|\r\n)"), 0..24),
            bom in any::<bool>(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut text = String::from(if bom { "\u{feff}" } else { "" });
            for (name, value, end) in &lines {
                match name.as_str() {
                    "" => text.push_str(end),
                    name => text.push_str(&format!("{name}: {value}{end}")),
                }
            }
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(events(pieces), events([bytes]));
            prop_assert_eq!(events(bytes.chunks(1)), events([bytes]));
        }
    }
}

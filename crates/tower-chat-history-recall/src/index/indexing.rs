//! Indexing of exchanges, in steps.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    ops::Range,
};

use tower_chat_history_core::{Exchange, Recorded, Seq};

use super::{
    documents::{Document, Documents},
    part::IndexPart,
    postings::{Posting, TableWriter, sort},
    room::Room,
};
use crate::{
    analyzer::{Analyzer, Term},
    passage::{Passage, Passages},
};

/// The number of postings that are merged in a step.
const MERGED: usize = 1 << 14;
/// The work to read a message is that of analyzing this part of it.
const READ: usize = 8;
/// The work to sort a posting.
const SORT: usize = 4;

/// A block in the making, so that a caller can pause between its passages.
#[derive(Debug)]
pub(crate) struct Indexing<'a> {
    analyzer: &'a Analyzer,
    end: Seq,
    documents: Documents,
    /// The postings of each exchange, sorted.
    runs: Vec<Vec<(Term, Posting)>>,
    /// The number of exchanges of which some terms are left out.
    cut: u64,
}

/// An exchange that is being indexed.
#[derive(Debug)]
pub(crate) struct Analyzing<'a> {
    exchange: &'a Exchange,
    passages: Passages<'a>,
    /// The message that is read next.
    next: usize,
    /// The passages of the message that was read last.
    read: VecDeque<Passage>,
    documents: Vec<Document>,
    postings: Vec<(Term, Posting)>,
    /// `None` if there is no room for more terms.
    room: Option<Room>,
    done: bool,
}

impl<'a> Indexing<'a> {
    /// Begins the block of a range.
    pub(crate) fn new(analyzer: &'a Analyzer, range: Range<Seq>) -> Self {
        Self { analyzer, end: range.end, documents: Documents::new(range.start), runs: Vec::new(), cut: 0 }
    }

    /// Adds the next exchange. One that is not in the range, or not in order, is ignored.
    pub(crate) fn push(&mut self, recorded: &Recorded) {
        let Some(mut exchange) = self.begin(recorded) else { return };
        while self.step(&mut exchange).is_some() {}
    }

    /// Begins to add the next exchange. Returns `None` for one that is not in the range, or not in order.
    pub(crate) fn begin<'e>(&mut self, Recorded { seq, exchange, .. }: &'e Recorded) -> Option<Analyzing<'e>> {
        if *seq < self.documents.end() || *seq >= self.end {
            return None;
        }
        self.documents.skip_to(*seq);
        Some(Analyzing {
            exchange,
            passages: Passages::of(exchange),
            next: 0,
            read: VecDeque::new(),
            documents: Vec::new(),
            postings: Vec::new(),
            room: Some(Room::of_exchange()),
            done: false,
        })
    }

    /// Reads the next message of the exchange that was begun last, or analyzes its next passage. Returns the
    /// [work](Analyzer::work) of this step, or `None` after the last one, which adds the exchange.
    pub(crate) fn step(&mut self, exchange: &mut Analyzing<'_>) -> Option<usize> {
        if exchange.done {
            return None;
        }
        if let Some(passage) = exchange.read.pop_front() {
            return Some(self.analyze(&passage, exchange));
        }
        if let Some(passages) = exchange.passages.next() {
            let message = exchange.exchange.messages.get(exchange.next);
            exchange.next += 1;
            exchange.read = passages.into();
            return Some(message.map_or(0, |message| message.bytes() / READ));
        }
        exchange.done = true;
        let mut run = std::mem::take(&mut exchange.postings);
        sort(&mut run);
        let work = run.len() * SORT;
        if !run.is_empty() {
            self.runs.push(run);
        }
        self.documents.push(exchange.documents.drain(..));
        self.cut += u64::from(exchange.room.is_none());
        Some(work)
    }

    /// Adds a passage. After the last term that there is room for, passages have no terms.
    fn analyze(&self, passage: &Passage, exchange: &mut Analyzing<'_>) -> usize {
        let number = exchange.documents.len() as u64 + u64::from(self.documents.len());
        let document = u32::try_from(number).unwrap_or(u32::MAX);
        let Some(room) = &mut exchange.room else {
            exchange.documents.push(Document { message: passage.message, length: 0 });
            return 0;
        };
        let mut found = passage.terms(exchange.exchange, self.analyzer);
        let length = u32::try_from(found.len()).unwrap_or(u32::MAX);
        let work = self.analyzer.work(&passage.text, found.len());
        found.sort_unstable();
        for same in found.chunk_by(Term::eq) {
            let posting = Posting { document, frequency: u32::try_from(same.len()).unwrap_or(u32::MAX) };
            if !room.take(same[0], posting) {
                exchange.room = None;
                break;
            }
            exchange.postings.push((same[0], posting));
        }
        exchange.documents.push(Document { message: passage.message, length });
        work
    }

    /// Returns the number of exchanges of which some terms are left out.
    pub(crate) const fn cut(&self) -> u64 {
        self.cut
    }

    /// Begins to write the block. Positions without an exchange have no documents.
    pub(crate) fn writing(mut self) -> Writing {
        self.documents.skip_to(self.end);
        let runs: Vec<VecDeque<(Term, Posting)>> = self.runs.into_iter().map(VecDeque::from).collect();
        let first = |(number, run): (usize, &VecDeque<(Term, Posting)>)| Some(Reverse((run.front()?.0, number)));
        let next = runs.iter().enumerate().filter_map(first).collect();
        Writing { documents: self.documents, runs, next, table: TableWriter::default() }
    }

    /// Returns the block. Positions without an exchange have no documents.
    pub(crate) fn finish(self) -> IndexPart {
        let mut writing = self.writing();
        while writing.step() > 0 {}
        writing.finish()
    }
}

/// A block that is being written. The runs of its exchanges are merged in steps.
#[derive(Debug)]
pub(crate) struct Writing {
    documents: Documents,
    runs: Vec<VecDeque<(Term, Posting)>>,
    /// The next term of each run. Of equal terms, the run of the earlier exchange comes first.
    next: BinaryHeap<Reverse<(Term, usize)>>,
    table: TableWriter,
}

impl Writing {
    /// Writes some postings. Returns their number, which is 0 after the last one.
    pub(crate) fn step(&mut self) -> usize {
        let mut written = 0;
        while written < MERGED {
            let Some(Reverse((term, number))) = self.next.pop() else { break };
            let Some(run) = self.runs.get_mut(number) else { break };
            while let Some((_, posting)) = run.front().copied().filter(|(next, _)| *next == term) {
                run.pop_front();
                self.table.push(term, posting);
                written += 1;
            }
            self.next.extend(run.front().map(|(next, _)| Reverse((*next, number))));
        }
        written
    }

    /// Returns the block.
    pub(crate) fn finish(self) -> IndexPart {
        IndexPart::of_table(self.documents, self.table.finish())
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{Attachment, Message};

    use super::*;
    use crate::{Language, stored::SLICE};

    /// Returns texts of so many bytes that are hard to analyze. `number` changes the random ones.
    fn hostile(number: u32, size: usize) -> Vec<String> {
        let mut state = number + 1;
        let mut random = move |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        let char = |first: u32, offset: u32| char::from_u32(first + offset).unwrap();
        let mut hangul = String::new();
        let mut han = String::new();
        let mut words = String::new();
        while hangul.len() < size {
            hangul.push(char(0xac00, random(11_000)));
            hangul.push_str(if random(8) == 0 { " " } else { "" });
        }
        while han.len() < size {
            han.push(char(0x4e00, random(20_000)));
        }
        while words.len() < size {
            words.extend((0..7).map(|_| char(97, random(26))));
            words.push(' ');
        }
        let repeated = |text: &str| text.repeat(size / text.len());
        vec![
            hangul,
            han,
            words,
            repeated("a\u{301}\u{323}\u{308} "),
            repeated("\u{fdfa} "),
            repeated("\u{301}\u{323}\u{308}\u{5b0}"),
            repeated("ภาษาไทย"),
            repeated("q"),
        ]
    }

    #[test]
    fn each_step_of_a_hostile_exchange_is_little_work() {
        for analyzer in [Analyzer::default(), Analyzer::new(Language::ALL)] {
            for (text, number) in hostile(0, 60_000).into_iter().zip(0..) {
                let log = Recorded::log(vec![Message::user(text)]);
                let mut indexing = Indexing::new(&analyzer, Seq::FIRST..Seq::new(64));
                let mut exchange = indexing.begin(&log[0]).unwrap();
                let (mut most, mut steps) = (0, 0);
                while let Some(work) = indexing.step(&mut exchange) {
                    (most, steps) = (most.max(work), steps + 1);
                }
                assert!(most <= 16 * SLICE && steps > 5, "text {number}: {most} in {steps} steps");
                assert!(indexing.step(&mut exchange).is_none());
                assert_eq!(indexing.documents.len(), indexing.finish().documents());
            }
        }
    }

    #[test]
    fn a_block_is_written_in_steps_and_always_fits_into_its_record() {
        let analyzer = Analyzer::new(Language::ALL);
        for kind in 0..3 {
            let turn = |number| [Message::user(hostile(number, 70_000).swap_remove(kind)), Message::assistant("ok")];
            let messages = (0..64).flat_map(turn).collect();
            let mut indexing = Indexing::new(&analyzer, Seq::FIRST..Seq::new(64));
            Recorded::log(messages).iter().for_each(|recorded| indexing.push(recorded));
            assert_eq!(indexing.cut(), 64);
            let (mut writing, mut steps) = (indexing.writing(), 0);
            while writing.step() > 0 {
                steps += 1;
            }
            let record = writing.finish().records(&analyzer).remove(0).1;
            assert!(record.len() <= Attachment::MAX_BYTES && record.len() > 3 << 20, "{kind}: {}", record.len());
            assert!(steps >= 20, "{kind}: {steps}");
        }
    }
}

//! The documents of a part of the index: their positions and lengths.

use std::ops::Range;

use tower_chat_history_core::Seq;

use crate::varint::{DecodeError, Reader, Writer};

/// The documents of a range of exchanges, numbered from 0 in the order of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Documents {
    first: u64,
    /// The number of each exchange's first document, then the number of all.
    starts: Vec<u32>,
    list: Vec<Document>,
    tokens: u64,
}

/// A passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    /// The message, by its place in its exchange.
    pub(crate) message: u32,
    /// The number of terms, with repetitions.
    pub(crate) length: u32,
}

impl Documents {
    /// Creates the documents of no exchange, with the position of the first one to come.
    pub(super) fn new(first: Seq) -> Self {
        Self { first: first.get(), starts: vec![0], list: Vec::new(), tokens: 0 }
    }

    /// Adds the next exchange.
    pub(super) fn push(&mut self, documents: impl IntoIterator<Item = Document>) {
        for document in documents {
            self.tokens += u64::from(document.length);
            self.list.push(document);
        }
        self.starts.push(self.len());
    }

    /// Adds exchanges without documents up to this position.
    pub(super) fn skip_to(&mut self, seq: Seq) {
        while self.end() < seq {
            self.push([]);
        }
    }

    /// Adds the exchanges of documents that follow these.
    pub(super) fn append(&mut self, more: &Self) {
        self.skip_to(more.first());
        let base = self.len();
        self.starts.extend(more.starts.iter().skip(1).map(|start| base.saturating_add(*start)));
        self.list.extend_from_slice(&more.list);
        self.tokens += more.tokens;
    }

    /// Returns the position of the first exchange.
    pub(crate) const fn first(&self) -> Seq {
        Seq::new(self.first)
    }

    /// Returns the position after the last exchange.
    pub(crate) fn end(&self) -> Seq {
        Seq::new(self.first.saturating_add(self.starts.len() as u64 - 1))
    }

    /// Returns the number of documents.
    pub(crate) fn len(&self) -> u32 {
        // A record of more documents is refused.
        u32::try_from(self.list.len()).unwrap_or(u32::MAX)
    }

    /// Returns the numbers of the documents of these exchanges.
    pub(crate) fn numbers(&self, range: &Range<Seq>) -> Range<u32> {
        let number = |seq: Seq| {
            let index = usize::try_from(seq.get().saturating_sub(self.first)).unwrap_or(usize::MAX);
            self.starts[index.min(self.starts.len() - 1)]
        };
        let (from, to) = (number(range.start), number(range.end));
        from..to.max(from)
    }

    /// Returns the sum of the lengths of these documents.
    pub(crate) fn tokens(&self, numbers: &Range<u32>) -> u64 {
        if *numbers == (0..self.len()) {
            return self.tokens;
        }
        let list = self.list.get(numbers.start as usize..numbers.end as usize).unwrap_or_default();
        list.iter().map(|document| u64::from(document.length)).sum()
    }

    /// Returns a document.
    pub(crate) fn get(&self, number: u32) -> Option<Document> {
        self.list.get(number as usize).copied()
    }

    /// Returns the exchange of a document.
    pub(crate) fn exchange_of(&self, number: u32) -> Seq {
        let after = self.starts.partition_point(|&start| start <= number);
        Seq::new(self.first + (after as u64).saturating_sub(1))
    }

    /// Writes, for each exchange, the number of its documents, and for each of these the distance of its message to
    /// that of the one before it, and its length.
    pub(super) fn encode(&self, out: &mut Writer) {
        out.number(self.first);
        out.number(self.starts.len() as u64 - 1);
        for bounds in self.starts.windows(2) {
            let &[from, to] = bounds else { continue };
            out.number(u64::from(to - from));
            let mut before = 0;
            for document in &self.list[from as usize..to as usize] {
                out.number(u64::from(document.message - before));
                out.number(u64::from(document.length));
                before = document.message;
            }
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut documents = Self::new(Seq::new(reader.number()?));
        for _ in 0..reader.count()? {
            let mut before = 0_u32;
            for _ in 0..reader.count()? {
                let message = before.checked_add(reader.small()?).ok_or(reader.error("a number is too large"))?;
                let length = reader.small()?;
                documents.tokens += u64::from(length);
                documents.list.push(Document { message, length });
                before = message;
            }
            if documents.list.len() >= u32::MAX as usize {
                return Err(reader.error("it has too many documents"));
            }
            documents.starts.push(documents.len());
        }
        Ok(documents)
    }

    /// Returns an estimate of the memory in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.starts.len() * size_of::<u32>() + self.list.len() * size_of::<Document>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn documents(first: u64, exchanges: &[Vec<(u32, u32)>]) -> Documents {
        let mut documents = Documents::new(Seq::new(first));
        for exchange in exchanges {
            let mut message = 0;
            documents.push(exchange.iter().map(|&(step, length)| {
                message += step;
                Document { message, length }
            }));
        }
        documents
    }

    fn exchanges() -> impl Strategy<Value = Vec<Vec<(u32, u32)>>> {
        prop::collection::vec(prop::collection::vec((0..3_u32, 0..300_u32), 0..4), 0..20)
    }

    proptest! {
        #[test]
        fn documents_are_read_as_written_and_joined(
            first in 0_u64..1000,
            a in exchanges(),
            b in exchanges(),
            gap in 0_u64..3,
        ) {
            let (a, b) = (documents(first, &a), documents(first + a.len() as u64 + gap, &b));
            let mut joined = a.clone();
            joined.append(&b);
            prop_assert_eq!(joined.end(), b.end());
            let mut out = Writer::default();
            joined.encode(&mut out);
            let bytes = out.finish();
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(&Documents::decode(&mut reader)?, &joined);
            prop_assert!(reader.is_empty());
            let in_b = joined.numbers(&(b.first()..b.end()));
            prop_assert_eq!(in_b.clone(), a.len()..joined.len());
            prop_assert_eq!(joined.tokens(&in_b), b.tokens);
            for number in 0..b.len() {
                prop_assert_eq!(joined.exchange_of(a.len() + number), b.exchange_of(number));
                prop_assert_eq!(joined.get(a.len() + number), b.get(number));
            }
        }
    }
}

//! The translation of a log into another dialect.

use std::sync::Arc;

use crate::{
    exchange::{Recorded, Translated, translate},
    memory::block,
    message::{Dialect, MessageError, Place},
    provenance::Origin,
    rounds::Rounds,
};

/// Translates a log, from its first exchange to its last.
///
/// A result names its call by an id, which several calls of one reply can share. The results of such calls can be in
/// several exchanges. Each gets the id of its own call, so a translation depends on the exchanges before it.
#[derive(Clone, Debug)]
pub struct Translator<'t> {
    to: &'static dyn Dialect,
    reader: &'t Origin,
    rounds: Rounds,
}

impl<'t> Translator<'t> {
    /// Creates the translator into a dialect, for prompts of this provider.
    #[must_use]
    pub fn new(to: &'static dyn Dialect, reader: &'t Origin) -> Self {
        Self { to, reader, rounds: Rounds::default() }
    }

    /// Returns the log's next exchange in the other dialect. Its messages must have been [read](crate::Exchange::read_in).
    ///
    /// The log may begin with any exchange: the results that answer calls of earlier ones are not sent. Apart from
    /// these results, a translation depends only on the exchange, its position, the calls that it answers, and the
    /// arguments of [`new`](Self::new). It is not kept: [`next`](Self::next) is for callers that keep translations.
    ///
    /// # Errors
    ///
    /// Returns an error if the dialect cannot read what it [wrote](Dialect::express).
    pub fn translate(&mut self, recorded: &Recorded) -> Result<Translated, MessageError> {
        self.next(recorded).translate(self.to, self.reader)
    }

    /// Returns the log's next exchange with the calls that it answers, for a later translation.
    pub fn next(&mut self, recorded: &Recorded) -> Untranslated {
        let begun = self.rounds.begin(recorded);
        let answered = self.rounds.open().places_of(recorded.first_results());
        self.rounds.push_begun(begun, &recorded.exchange.messages);
        Untranslated { recorded: recorded.clone(), places: recorded.places(&answered) }
    }

    /// Adds the log's next exchange, which stays as it is.
    pub fn keep(&mut self, recorded: &Recorded) {
        self.rounds.push_exchange(recorded);
    }
}

/// An exchange of a log with the calls that it answers. The translations of equal ones are equal.
#[derive(Clone, Debug)]
pub struct Untranslated {
    recorded: Recorded,
    places: Vec<Place>,
}

impl Untranslated {
    /// Returns the exchange in another dialect, for prompts of this provider.
    ///
    /// # Errors
    ///
    /// Returns an error if the dialect cannot read what it [wrote](Dialect::express).
    pub fn translate(&self, to: &'static dyn Dialect, reader: &Origin) -> Result<Translated, MessageError> {
        translate(&self.recorded, to, reader, &self.places)
    }

    /// Returns the exchange as it is stored.
    #[must_use]
    pub const fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    /// Returns an estimate of the memory that this value takes on the heap, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let places = block(self.places.capacity().saturating_mul(size_of::<Place>()));
        self.recorded.exchange.memory().saturating_add(places)
    }
}

impl PartialEq for Untranslated {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (&self.recorded, &other.recorded);
        let is_same = || Arc::ptr_eq(&one.exchange, &two.exchange) || one.exchange == two.exchange;
        one.seq == two.seq && self.places == other.places && is_same()
    }
}

#[cfg(test)]
mod tests;

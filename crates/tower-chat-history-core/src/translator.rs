//! The translation of a log into another dialect.

use crate::{
    exchange::{Recorded, Translated, translate},
    message::{Dialect, MessageError},
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
    /// arguments of [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// Returns an error if the dialect cannot read what it [wrote](Dialect::express).
    pub fn translate(&mut self, recorded: &Recorded) -> Result<Translated, MessageError> {
        let begun = self.rounds.begin(recorded);
        let answered = self.rounds.open().places_of(recorded.first_results());
        self.rounds.push_begun(begun, &recorded.exchange.messages);
        translate(recorded, self.to, self.reader, &recorded.places(&answered))
    }

    /// Adds the log's next exchange, which stays as it is.
    pub fn keep(&mut self, recorded: &Recorded) {
        self.rounds.push_exchange(recorded);
    }
}

#[cfg(test)]
mod tests;

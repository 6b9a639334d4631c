//! The translation of a log into another dialect.
//!
//! # Decisions
//!
//! - **Translations are made for a prompt and not stored.** Each dialect has two functions, one that reads statements
//!   and one that writes them, and these are enough for all directions. A translation depends only on the exchange, its
//!   position, the calls that its results answer, the dialect and the provider, so prompts stay prefixes of each other.

#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use crate::{
    exchange::{Exchange, Recorded},
    message::{CallId, Dialect, DialectName, Expressed, LeftOut, Message, MessageError, Place, Role, Statement},
    provenance::Origin,
    recalled::Recalled,
    rounds::Rounds,
    seq::Seq,
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

/// An exchange in another dialect.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Translated {
    /// The exchange with messages of the other dialect. Everything else is as it is stored, but without what depends on
    /// the messages: the token counts and the [provenance](Exchange::provenance), because nothing in it is bound.
    pub exchange: Arc<Exchange>,
    /// The parts that are left out of it.
    pub left_out: LeftOut,
}

impl Recorded {
    /// Returns the exchange in another dialect, as a [`Translator`](crate::Translator) does if it is the first one of a
    /// log.
    ///
    /// # Errors
    ///
    /// Returns an error if the dialect cannot read what it [wrote](Dialect::express).
    pub fn translated(&self, to: &'static dyn Dialect, reader: &Origin) -> Result<Translated, MessageError> {
        translate(self, to, reader, &self.places(&[]))
    }

    /// Returns the ids of the first results, which answer calls of earlier exchanges.
    pub(crate) fn first_results(&self) -> impl Iterator<Item = &CallId> {
        let before = self.exchange.input().iter().take_while(|message| message.tool_calls().is_empty());
        before.flat_map(Message::answers)
    }

    /// Returns the places of the calls that the first results answer. `answered` has those that are known. Results of
    /// unknown calls are numbered.
    pub(crate) fn places(&self, answered: &[Option<Place>]) -> Vec<Place> {
        let asked = self.exchange.continues.unwrap_or(self.seq);
        let mut unknown: HashMap<&CallId, usize> = HashMap::new();
        let mut places = Vec::new();

        for (at, id) in self.first_results().enumerate() {
            if let Some(place) = answered.get(at).copied().flatten() {
                places.push(place);
                continue;
            }
            let next = unknown.entry(id).or_default();
            places.push(Place { asked, round: 0, occurrence: *next });
            *next += 1;
        }

        places
    }
}

/// Returns the exchange in another dialect. The first results answer the calls at these places.
pub(crate) fn translate(
    Recorded { seq, exchange, .. }: &Recorded,
    to: &'static dyn Dialect,
    reader: &Origin,
    places: &[Place],
) -> Result<Translated, MessageError> {
    let mut left_out = LeftOut::default();
    let mut input = statements(exchange.input(), &mut left_out);
    let mut reply = statements(exchange.reply(), &mut left_out);
    place(&mut input, places, *seq);
    number(&mut reply, *seq, 0);

    let mut expressed = Expressed::new(reader).followed(exchange.reply_len > 0);
    let mut messages = written(to, &input, &mut expressed)?;
    left_out += expressed.left_out;

    let mut expressed = Expressed::new(reader);
    let reply = written(to, &reply, &mut expressed)?;
    left_out += expressed.left_out;

    let reply_len = reply.len();
    messages.extend(reply);
    let recalled = exchange.recalled.as_ref().map(|recalled| recalled_in(recalled, to)).transpose()?;
    let exchange = Exchange {
        id: exchange.id.clone(),
        at: exchange.at,
        continues: exchange.continues,
        dialect: DialectName::of(to),
        messages,
        sealed: exchange.sealed.clone(),
        reply_len,
        tokens: None,
        model: exchange.model.clone(),
        finish_reason: exchange.finish_reason.clone(),
        usage: exchange.usage,
        incomplete: exchange.incomplete,
        metadata: exchange.metadata.clone(),
        recalled,
        provenance: None,
    };
    Ok(Translated { exchange: Arc::new(exchange), left_out })
}

fn statements<'m>(messages: &'m [Message], left_out: &mut LeftOut) -> Vec<Statement<'m>> {
    let mut statements = Vec::new();
    for message in messages {
        if let Some(dialect) = message.dialect() {
            statements.extend(dialect.statements(message, left_out));
        }
    }
    statements
}

/// Returns the messages that say this.
fn written(
    to: &'static dyn Dialect,
    statements: &[Statement<'_>],
    expressed: &mut Expressed<'_>,
) -> Result<Vec<Message>, MessageError> {
    to.express(statements, expressed).into_iter().map(|json| Message::in_dialect(to, json)).collect()
}

fn recalled_in(recalled: &Recalled, to: &'static dyn Dialect) -> Result<Recalled, MessageError> {
    let mut recalled = recalled.clone();
    recalled.message = Message::compose(to, &Role::User, recalled.message.text())?;
    recalled.tokens = None;
    Ok(recalled)
}

/// Sets the places of the calls of an input. Results before its first call answer the calls at these places, which are
/// in earlier replies. Calls of the input have their results in the input.
fn place(statements: &mut [Statement<'_>], places: &[Place], own: Seq) {
    let first = statements.iter().position(is_call).unwrap_or(statements.len());
    let (answers, mut rest) = statements.split_at_mut(first);
    for (id, place) in answers.iter_mut().filter_map(Statement::id_mut).zip(places) {
        id.set_place(*place);
    }

    for round in 1.. {
        // A round has its calls, and everything until the next calls.
        let calls = rest.iter().take_while(|statement| !matches!(statement, Statement::Result { .. })).count();
        let others = rest[calls..].iter().take_while(|statement| !is_call(statement)).count();

        let (of_round, after) = rest.split_at_mut(calls + others);
        if of_round.is_empty() {
            break;
        }
        number(of_round, own, round);
        rest = after;
    }
}

fn is_call(statement: &Statement<'_>) -> bool {
    matches!(statement, Statement::Call(_))
}

/// Sets the places of the calls of a round, and those of their results: the first result of an id answers its first
/// call.
fn number(statements: &mut [Statement<'_>], asked: Seq, round: usize) {
    let mut seen: HashMap<(bool, CallId), usize> = HashMap::new();
    for statement in statements {
        let is_call = is_call(statement);
        let Some(id) = statement.id_mut() else { continue };
        let next = seen.entry((is_call, id.original().clone())).or_default();
        id.set_place(Place { asked, round, occurrence: *next });
        *next += 1;
    }
}

//! Exchanges in another dialect than the one in which they are stored.

use std::{collections::HashMap, sync::Arc};

use super::{Exchange, Recorded};
use crate::{
    memory::block,
    message::{CallId, Dialect, DialectName, Expressed, LeftOut, Message, MessageError, Place, Statement},
    provenance::Origin,
    recalled::Recalled,
    role::Role,
    rounds::{OpenCalls, Rounds},
    seq::Seq,
};

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

    /// Returns the log's next exchange in the other dialect. Its messages must have been [read](Exchange::read_in).
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
        let places = places(self.rounds.open(), recorded);
        self.rounds.push_begun(begun, &recorded.exchange.messages);
        Untranslated { recorded: recorded.clone(), places }
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

impl Recorded {
    /// Returns the exchange in another dialect, as a [`Translator`] does if it is the first one of a log.
    ///
    /// # Errors
    ///
    /// Returns an error if the dialect cannot read what it [wrote](Dialect::express).
    pub fn translated(&self, to: &'static dyn Dialect, reader: &Origin) -> Result<Translated, MessageError> {
        translate(self, to, reader, &places(&OpenCalls::default(), self))
    }
}

/// Returns the places of the calls that the first results of an exchange answer.
fn places(open: &OpenCalls, Recorded { seq, exchange, .. }: &Recorded) -> Vec<Place> {
    let answers = || {
        let before = exchange.input().iter().take_while(|message| message.tool_calls().is_empty());
        before.flat_map(Message::answers)
    };
    let asked = exchange.continues.unwrap_or(*seq);
    let mut unknown: HashMap<&CallId, usize> = HashMap::new();
    let place = |(found, id): (Option<Place>, _)| {
        found.unwrap_or_else(|| {
            let next = unknown.entry(id).or_default();
            let occurrence = *next;
            *next += 1;
            Place { asked, round: 0, occurrence }
        })
    };
    open.places_of(answers()).into_iter().zip(answers()).map(place).collect()
}

fn translate(
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
    let mut write = |statements: &[Statement<'_>], is_followed: bool| {
        let mut expressed = Expressed::new(reader).followed(is_followed);
        let elements = to.express(statements, &mut expressed);
        left_out += expressed.left_out;
        elements.into_iter().map(|json| Message::in_dialect(to, json)).collect::<Result<Vec<_>, _>>()
    };
    let mut messages = write(&input, exchange.reply_len > 0)?;
    let reply = write(&reply, false)?;
    let reply_len = reply.len();
    messages.extend(reply);
    let recalled = exchange.recalled.as_ref().map(|recalled| recalled_in(recalled, to)).transpose()?;
    let exchange = Exchange {
        id: exchange.id.clone(),
        at: exchange.at,
        continues: exchange.continues,
        dialect: DialectName::of(to),
        messages,
        reply_len,
        tokens: None,
        model: exchange.model.clone(),
        finish_reason: exchange.finish_reason.clone(),
        usage: exchange.usage,
        incomplete: exchange.incomplete,
        recalled,
        provenance: None,
    };
    Ok(Translated { exchange: Arc::new(exchange), left_out })
}

fn statements<'m>(messages: &'m [Message], left_out: &mut LeftOut) -> Vec<Statement<'m>> {
    let of = |message: &'m Message| match message.dialect() {
        Some(dialect) => dialect.statements(message, left_out),
        None => Vec::new(),
    };
    messages.iter().flat_map(of).collect()
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
    let is_call = |statement: &Statement<'_>| matches!(statement, Statement::Call(_));
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

/// Sets the places of the calls of a round, and those of their results: the first result of an id answers its first
/// call.
fn number(statements: &mut [Statement<'_>], asked: Seq, round: usize) {
    let mut seen: HashMap<(bool, CallId), usize> = HashMap::new();
    for statement in statements {
        let is_call = matches!(statement, Statement::Call(_));
        let Some(id) = statement.id_mut() else { continue };
        let next = seen.entry((is_call, id.original().clone())).or_default();
        id.set_place(Place { asked, round, occurrence: *next });
        *next += 1;
    }
}

#[cfg(test)]
mod tests;

//! Exchanges in another dialect than the one in which they are stored.

use std::{collections::HashMap, sync::Arc};

use super::{Exchange, Recorded};
use crate::{
    message::{CallId, Dialect, DialectName, Expressed, LeftOut, Message, MessageError, Place, Statement},
    provenance::Origin,
    recalled::Recalled,
    role::Role,
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
        let place = |(at, id)| {
            answered.get(at).copied().flatten().unwrap_or_else(|| {
                let next = unknown.entry(id).or_default();
                let occurrence = *next;
                *next += 1;
                Place { asked, round: 0, occurrence }
            })
        };
        self.first_results().enumerate().map(place).collect()
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

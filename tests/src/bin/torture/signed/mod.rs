//! Exchanges in the signing dialect, whose provider refuses reasoning in another prompt than its own. Their replies
//! have several elements: signed and sealed reasoning, plans, parallel calls in both spaces of ids, and unknown kinds.

mod intact;
mod sent;

use test_providers::signing::{Say, SigningDialect};
use tower_chat_history::{
    Message, Role,
    dialect::{CallId, Space},
    store::MessageError,
};

pub(crate) use self::{
    intact::task,
    sent::{Sent, sum},
};
use crate::{
    exchange::{Name, Task},
    rng::{SeededRng, hash},
    text::Part,
};

/// Numbers the texts of an exchange, and makes its random decisions, which depend on its name.
struct Writer {
    task: Task,
    next: u8,
    rng: SeededRng,
}

impl Writer {
    fn new(task: Task, what: &str) -> Self {
        Self { task, next: 0, rng: SeededRng::new(hash([task.name.to_string().as_str(), what])) }
    }

    fn text(&mut self) -> String {
        self.next += 1;
        self.task.text(Part::Numbered(self.next - 1))
    }

    /// Returns true once in this many exchanges.
    fn once_in(&mut self, times: u64) -> bool {
        self.rng.once_in(times)
    }
}

/// Returns the ids of the calls that an exchange with this name makes. Some differ only in their space.
pub(crate) fn calls(name: Name) -> Vec<CallId> {
    let mut rng = SeededRng::new(hash([name.to_string().as_str(), "calls"]));
    let (first, count) = (rng.below(2), rng.between(1, 4));
    let call = |number: u64| {
        let space = if (first + number).is_multiple_of(2) { Space::DEFAULT } else { Space(1) };
        CallId::new(space, format!("{}-{}", name.call_id(), number / 2))
    };
    (0..count).map(call).collect()
}

/// Returns the input of an exchange.
pub(crate) fn input(task: Task) -> Result<Vec<Message>, MessageError> {
    Ok(input_and_next(task)?.0)
}

/// Returns the script of the reply.
pub(crate) fn script(task: Task) -> Result<Vec<Say>, MessageError> {
    let mut writer = Writer { next: input_and_next(task)?.1, ..Writer::new(task, "reply") };
    let mut says = Vec::new();
    if writer.once_in(8) {
        says.push(Say::Unknown);
    }
    if writer.once_in(4) {
        says.push(Say::Sealed(writer.text()));
    }
    if !writer.once_in(4) {
        says.push(Say::Thought(writer.text()));
    }
    if writer.once_in(3) {
        says.push(Say::Plan(writer.text()));
    }
    if !task.kind.calls() {
        let text = writer.text();
        says.push(if writer.once_in(3) { Say::ThoughtAndText(writer.text(), text) } else { Say::Text(text) });
        if writer.once_in(6) {
            says.push(Say::Sealed(writer.text()));
        }
        return Ok(says);
    }
    if writer.once_in(3) {
        says.push(Say::Text(writer.text()));
    }
    for (number, call) in calls(task.name).into_iter().enumerate() {
        if number > 0 && writer.once_in(6) {
            says.push(Say::Thought(writer.text()));
        }
        says.push(Say::Call { space: call.space(), id: call.as_str().to_owned() });
    }
    Ok(says)
}

/// Returns the input, and the number of its texts.
fn input_and_next(task: Task) -> Result<(Vec<Message>, u8), MessageError> {
    let mut writer = Writer::new(task, "input");
    let mut input = Vec::new();
    if task.kind.continues() {
        let mut answered = calls(task.name.before());
        if writer.once_in(2) {
            answered.reverse();
        }
        let answered: Vec<(CallId, String)> = answered.into_iter().map(|call| (call, writer.text())).collect();
        // Several elements may have the results, and the last one may also have a text of the user.
        let at = writer.rng.index(answered.len());
        let text = writer.once_in(3).then(|| writer.text());
        let (first, last) = answered.split_at(at);
        let results = |some: &[(CallId, String)], text: Option<&str>| {
            let some = some.iter().map(|(call, text)| (call, text.as_str()));
            Message::in_dialect(&SigningDialect, SigningDialect::results(some, text))
        };
        if !first.is_empty() {
            input.push(results(first, None)?);
        }
        input.push(results(last, text.as_deref())?);
    } else {
        if writer.once_in(10) {
            input.push(Message::in_dialect(&SigningDialect, r#"{ "from" : "elsewhere", "level" : 1e0 }"#)?);
        }
        input.push(Message::compose(&SigningDialect, &Role::User, writer.text())?);
    }
    Ok((input, writer.next))
}

#[cfg(test)]
pub(crate) use self::tests::exchange;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use test_providers::signing::SigningProvider;
    use tower_chat_history::{
        Exchange,
        dialect::Digest,
        store::{Cut, Origin, PromptDigests, Provenance, Seq},
    };

    use super::*;
    use crate::exchange::Kind;

    /// Returns the stored exchange of a task.
    pub(crate) fn exchange(task: Task) -> Exchange {
        let prompt = [Message::compose(&SigningDialect, &Role::User, "?").unwrap()];
        let digest = Digest::of(b"");
        let reply = SigningProvider::new("one").reply(digest, &prompt, &script(task).unwrap()).unwrap();
        let reply_len = reply.len();
        let messages = input(task).unwrap().into_iter().chain(reply);
        let mut exchange = Exchange::new(task.name.exchange_id().unwrap(), messages).with_reply_len(reply_len);
        let origin = Origin::unknown().provider("one");
        let digests = PromptDigests::new(digest, digest);
        exchange.provenance = Some(Provenance::new(1, Cut::default().positions, digests, origin));
        if task.kind.continues() { exchange.continuing(Seq::FIRST) } else { exchange }
    }

    #[test]
    fn the_provider_accepts_whole_turns_of_all_kinds_of_elements() {
        let (mut kinds, mut most_results) = (HashSet::new(), 0);
        for number in 0..300 {
            let mut provider = SigningProvider::new("one");
            let mut prompt = Vec::new();
            for (number, kind) in (number..).zip([Kind::Plain, Kind::Call, Kind::Step, Kind::Result, Kind::Plain]) {
                let task = Task { name: Name { worker: 1, number }, conversation: 1, kind };
                let input = input(task).unwrap();
                most_results = input.iter().map(|message| message.answers().len()).fold(most_results, usize::max);
                prompt.extend(input);
                let says = script(task).unwrap();
                prompt.extend(provider.reply(Digest::of(b""), &prompt, &says).unwrap());
                kinds.extend(says.iter().map(std::mem::discriminant));
            }
            assert_eq!(provider.counts().missing, 0);
        }
        assert_eq!((kinds.len(), most_results), (7, 4), "all kinds of elements, and four results in one");
    }

    #[test]
    fn some_calls_differ_only_in_their_space() {
        let calls = (0..20).map(|number| calls(Name { worker: 1, number }));
        let differ = |calls: &Vec<CallId>| {
            calls.iter().any(|one| calls.iter().any(|two| one != two && one.as_str() == two.as_str()))
        };
        assert!(calls.clone().any(|calls| differ(&calls)) && calls.clone().any(|calls| calls.len() == 1));
    }
}

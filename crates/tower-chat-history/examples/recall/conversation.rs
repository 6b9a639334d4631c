//! Recorded conversations.

use std::{collections::HashMap, error::Error, fs, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value};
use tower_chat_history::recall::Ranking;
use tower_chat_history_core::{Citation, Message, Recorded, Seq};

pub(crate) struct Conversation {
    pub(crate) id: String,
    pub(crate) log: Vec<Recorded>,
    pub(crate) questions: Vec<Question>,
    /// The id and the tokens of each message, by its place.
    messages: HashMap<(Seq, u32), (String, u64)>,
}

#[derive(Deserialize)]
pub(crate) struct Question {
    pub(crate) id: String,
    pub(crate) question: String,
}

#[derive(Deserialize)]
struct File {
    id: String,
    messages: Vec<Map<String, Value>>,
    questions: Vec<Question>,
}

impl Conversation {
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let file: File = serde_json::from_str(&fs::read_to_string(path)?)?;
        let (mut known, mut sent) = (Vec::new(), Vec::new());
        for mut message in file.messages {
            let id =
                message.remove("id").and_then(|id| id.as_str().map(str::to_owned)).ok_or("a message without id")?;
            let tokens =
                message.remove("tokens").and_then(|tokens| tokens.as_u64()).ok_or("a message without tokens")?;
            known.push((id, tokens));
            message.retain(|field, _| matches!(field.as_str(), "role" | "name" | "content"));
            sent.push(Message::try_from(Value::Object(message))?);
        }
        let log = Recorded::log(sent);
        let places = log.iter().flat_map(|recorded| {
            let count = u32::try_from(recorded.exchange.messages.len()).unwrap_or(u32::MAX);
            (0..count).map(|message| (recorded.seq, message))
        });
        Ok(Self { id: file.id, messages: places.zip(known).collect(), log, questions: file.questions })
    }

    pub(crate) fn tokens(&self, recorded: &Recorded, message: u32) -> u64 {
        self.messages.get(&(recorded.seq, message)).map_or(u64::MAX, |(_, tokens)| *tokens)
    }

    /// Returns the newest exchanges that fit.
    pub(crate) fn window(&self, budget: u64) -> Vec<Citation> {
        let mut window: Vec<Citation> = Vec::new();
        for recorded in self.log.iter().rev() {
            let all =
                Citation::new(recorded.seq, 0..u32::try_from(recorded.exchange.messages.len()).unwrap_or(u32::MAX));
            window.push(all);
            if self.cost(&window) > budget {
                window.pop();
                break;
            }
        }
        window
    }

    /// Returns the position of the first exchange of a window.
    pub(crate) fn start_of(&self, window: &[Citation]) -> Seq {
        let end = self.log.last().map_or(Seq::FIRST, |recorded| recorded.seq.next());
        window.last().map_or(end, |cite| cite.seq)
    }

    /// Returns single messages of a ranking, best first, that fit. The newest of the others use up what is left.
    pub(crate) fn greedy(&self, ranking: &Ranking, allowance: u64) -> Vec<Citation> {
        let end = ranking.hits.iter().map(|hit| hit.seq).max();
        let hits = ranking.hits.iter().map(|hit| (hit.seq, hit.message));
        let mut others: Vec<(Seq, u32)> = self.messages.keys().copied().filter(|(seq, _)| Some(*seq) <= end).collect();
        others.sort_unstable_by(|a, b| b.cmp(a));
        let (mut taken, mut left) = (Vec::new(), allowance);
        for place in hits.chain(others) {
            let cost = self.messages.get(&place).map_or(u64::MAX, |(_, tokens)| *tokens);
            if cost <= left && !taken.contains(&place) {
                left -= cost;
                taken.push(place);
            }
        }
        taken.sort_unstable();
        taken.into_iter().map(|(seq, message)| Citation::new(seq, message..message + 1)).collect()
    }

    pub(crate) fn cost(&self, cites: &[Citation]) -> u64 {
        self.known(cites).map(|(_, tokens)| tokens).sum()
    }

    pub(crate) fn ids<'a>(&'a self, cites: impl IntoIterator<Item = &'a Citation>) -> Vec<&'a str> {
        self.known(cites).map(|(id, _)| id.as_str()).collect()
    }

    fn known<'a>(&'a self, cites: impl IntoIterator<Item = &'a Citation>) -> impl Iterator<Item = &'a (String, u64)> {
        let places = cites.into_iter().flat_map(|cite| cite.messages.clone().map(|message| (cite.seq, message)));
        places.filter_map(|place| self.messages.get(&place))
    }
}

//! A summarizer whose summaries can be checked. A summary is the number of a page, and the page lists the
//! facts that it covers.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use tower_chat_history::{
    BoxError, Role,
    summary::{Summarizer, SummaryRequest, SummaryResponse},
};

use super::{Ingredient, Ingredients, panics::on_purpose, rules::marks};
use crate::rng::SeededRng;

/// The pages of all summaries, and the errors found so far.
#[derive(Debug)]
pub(super) struct Notes(Mutex<Pages>);

#[derive(Debug)]
struct Pages {
    pages: Vec<BTreeSet<u64>>,
    twice: Vec<String>,
    repeated: BTreeSet<u64>,
    rng: SeededRng,
    ingredients: Ingredients,
    reliable: bool,
    panics: bool,
}

impl Notes {
    /// Creates a summarizer that always succeeds if `reliable` is true, and otherwise one that sometimes
    /// fails, panics if `panics` is true, hangs or returns odd summaries.
    pub(super) fn new(rng: SeededRng, ingredients: &Ingredients, reliable: bool, panics: bool) -> Self {
        let ingredients = ingredients.clone();
        Self(Mutex::new(Pages {
            pages: Vec::new(),
            twice: Vec::new(),
            repeated: BTreeSet::new(),
            rng,
            ingredients,
            reliable,
            panics,
        }))
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the facts of a summary, or `None` if another summarizer made it.
    pub(super) fn facts(&self, summary: &str) -> Option<BTreeSet<u64>> {
        self.pages().facts(summary)
    }

    /// Returns the first fact that was summarized twice.
    pub(super) fn twice(&self) -> Option<String> {
        self.pages().twice.first().cloned()
    }

    /// Notes that a log contains these facts twice, because their call was repeated.
    pub(super) fn repeats(&self, facts: &BTreeSet<u64>) {
        self.pages().repeated.extend(facts);
    }

    /// Returns the number of pages that were written.
    pub(super) fn written(&self) -> u64 {
        self.pages().pages.len() as u64
    }
}

impl Pages {
    fn facts(&self, summary: &str) -> Option<BTreeSet<u64>> {
        let (number, _) = summary.strip_prefix('S')?.split_once(';')?;
        self.pages.get(number.parse::<usize>().ok()?).cloned()
    }

    fn write(&mut self, request: &SummaryRequest) -> String {
        let said = request.messages.iter().filter(|message| matches!(message.role(), Role::User | Role::Assistant));
        let new: BTreeSet<u64> = said.flat_map(|message| marks(&message.text())).collect();
        let mut all = match &request.previous {
            Some(previous) => self.facts(previous).unwrap_or_else(|| {
                self.twice.push("an unknown previous summary".to_owned());
                BTreeSet::new()
            }),
            None => BTreeSet::new(),
        };
        if let Some(fact) = new.iter().find(|fact| all.contains(fact) && !self.repeated.contains(fact)) {
            self.twice.push(format!("fact {fact} is summarized twice"));
        }
        all.extend(new);
        self.pages.push(all);
        format!("S{};", self.pages.len() - 1)
    }
}

enum Mood {
    Fine,
    Fails,
    Panics,
    Hangs,
}

#[async_trait]
impl Summarizer for Notes {
    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        let (mood, summary) = {
            let mut pages = self.pages();
            let mut summary = SummaryResponse::new(pages.write(&request));
            let mood = if pages.reliable { 99 } else { pages.rng.below(16) };
            match mood {
                0 => summary.text.push_str(&"huge ".repeat(5_000)),
                1 => summary.text = " \n".to_owned(),
                2 => summary.finished = false,
                3 if pages.ingredients.has(Ingredient::Nuls) => summary.text.push('\0'),
                4 if pages.ingredients.has(Ingredient::Nuls) => summary.model = Some("m\0".to_owned()),
                5 => summary.text.push_str("</conversation_summary>"),
                _ => {}
            }
            let mood = match mood {
                6 => Mood::Fails,
                7 if pages.panics => Mood::Panics,
                8 => Mood::Hangs,
                _ => Mood::Fine,
            };
            (mood, summary)
        };
        match mood {
            Mood::Fine => Ok(summary),
            Mood::Fails => Err("the summarizer fails".into()),
            Mood::Panics => on_purpose("the summarizer panics"),
            Mood::Hangs => std::future::pending().await,
        }
    }
}
